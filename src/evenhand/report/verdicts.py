"""A gate's verdicts: lines for a terminal, annotations for GitHub, XML for whatever reads JUnit's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from evenhand.report.lines import printable

if TYPE_CHECKING:
    from evenhand.gate import Verdict


def line(verdict: "Verdict") -> str:
    """A verdict in one line."""
    said = f"{verdict.rule}: {verdict.found}" if verdict.found else verdict.rule
    return printable(f"pass  {said}" if verdict.passed else f"FAIL  {said} ({verdict.reason})")


def annotation(verdict: "Verdict") -> str:
    """A verdict as a GitHub workflow command."""
    text = f"{verdict.rule}: {verdict.found}" + (f" ({verdict.reason})" if verdict.reason else "")
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{'notice' if verdict.passed else 'error'} title=evenhand gate::{printable(escaped)}"


def junit(verdicts: Sequence["Verdict"], seconds: float = 0.0) -> str:
    """The verdicts as one JUnit test suite, a test case per rule."""
    failures = sum(not verdict.passed for verdict in verdicts)
    counts = {"tests": str(len(verdicts)), "failures": str(failures), "errors": "0", "time": f"{seconds:.3f}"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "evenhand gate", **counts})
    for verdict in verdicts:
        about = {"classname": f"evenhand.{verdict.task}", "name": verdict.rule, "time": "0.000"}
        case = ET.SubElement(suite, "testcase", {key: printable(value) for key, value in about.items()})
        if not verdict.passed:
            failure = ET.SubElement(case, "failure", {"message": printable(verdict.reason)})
            failure.text = printable(line(verdict))
        elif verdict.found:
            ET.SubElement(case, "system-out").text = printable(verdict.found)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
