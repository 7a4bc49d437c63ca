"""Rules: what they mean, what passes, what fails, what is refused, and the forms CI reads."""

import json
from xml.etree import ElementTree as ET

import pytest

from evenhand import gate as gates
from evenhand.errors import InputError
from evenhand.gate import Verdict, gate, parse
from evenhand.report import verdicts


def estimate(value, low=None, high=None, reason=None):
    return {"value": value, "ci_low": low, "ci_high": high, "reason": reason}


METRICS = {
    "ss": estimate(52.0, 47.0, 57.0),
    "icat": estimate(70.0, 66.0, 74.0),
    "lms": estimate(None, reason="no row has a value"),
    "ties": estimate(0.0, reason="every resample gives the same value"),
    "gap": estimate(-0.25, -0.5, 0.0),
}
GROUPS = [
    {"by": {"bias_type": "gender"}, "n": 1, "metrics": {"ss": estimate(61.0, 55.0, 66.0)}},
    {"by": {"format": "intrasentence", "bias_type": "gender"}, "n": 1, "metrics": {"ss": estimate(44.0, 40.0, 48.0)}},
    {"by": {"target": "truck driver, night"}, "n": 1, "metrics": {"ss": estimate(50.0)}},
]


@pytest.fixture
def folder(tmp_path):
    """Writes a run folder with these results."""

    def write(name="run", metrics=METRICS, groups=GROUPS, **entry):
        task = {"version": 1, "method": "m", "form": "f", "data": {"source": "s", "sha256": "0" * 64, "n": 1}} | entry
        task |= {"metrics": metrics, "groups": groups, "notes": [], "context": []}
        results = {"schema": 1, "model": {"ref": "x"}, "tasks": {"stereoset": task}, "warnings": []}
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(results))
        return tmp_path / name

    return write


@pytest.mark.parametrize(
    ("rule", "by_value", "by_interval"),
    [
        ("stereoset.ss within 45..55", True, False),
        ("stereoset.ss within 47..57", True, True),
        ("stereoset.ss within 47.0 .. 57.0", True, True),
        ("stereoset.ss within 52..52", True, False),
        ("stereoset.ss within 53..60", False, False),
        ("stereoset.ss within 40..51.9", False, False),
        ("stereoset.icat >= 66", True, True),
        ("stereoset.icat>=70", True, False),
        ("stereoset.icat > 70", False, False),
        ("stereoset.icat > 65.999", True, True),
        ("stereoset.icat <= 74", True, True),
        ("stereoset.icat < 74", True, False),
        ("stereoset.icat < 70", False, False),
        ("stereoset.icat == 70", True, False),
        ("stereoset.icat == 70.5", False, False),
        ("stereoset.gap <= 0", True, True),
        ("stereoset.gap < 0", True, False),
        ("stereoset.gap >= -.5", True, True),
        ("stereoset.gap within -5e-1..+1E1", True, True),
        ("stereoset.ss[bias_type=gender] within 40..60", False, False),
        ("stereoset.ss[bias_type=gender] <= 66", True, True),
        ("stereoset.ss[ bias_type = gender , format = intrasentence ] <= 45", True, False),
        ("stereoset.ties == 0", True, False),
    ],
)
def test_a_rule_on_the_value_and_on_the_interval(folder, rule, by_value, by_interval):
    run = folder()
    assert [v.passed for v in gate(run, [rule])] == [by_value]
    assert [v.passed for v in gate(run, [rule], by="interval")] == [by_interval]


@pytest.mark.parametrize(
    ("rule", "passes"),
    [
        ("stereoset.icat >= baseline", False),
        ("stereoset.icat >= baseline - 2", True),
        ("stereoset.icat >= baseline-1.9", False),
        ("stereoset.icat <= baseline + 0.1", True),
        ("stereoset.icat < baseline", True),
        ("stereoset.icat == baseline - 2", True),
        ("stereoset.icat within baseline - 2 .. baseline + 2", True),
        ("stereoset.icat within 60 .. baseline - 3", False),
    ],
)
def test_a_rule_against_the_baseline(folder, rule, passes):
    before = folder("before", METRICS | {"icat": estimate(72.0, 70.0, 73.0)})
    (verdict,) = gate(folder(), [rule], baseline=before)
    assert verdict.passed is passes
    assert "baseline 72" in verdict.found


def test_by_interval_the_whole_interval_is_held_against_the_baselines_value(folder):
    before = folder("before", METRICS | {"icat": estimate(67.0, 1.0, 99.0)})
    run = folder()
    rules = ["stereoset.icat >= baseline - 1", "stereoset.icat >= baseline"]
    assert [v.passed for v in gate(run, rules, baseline=before, by="interval")] == [True, False]


def test_null_fails_with_its_reason(folder):
    run = folder()
    for by in ("value", "interval"):
        for rule in ("stereoset.lms >= 0", "stereoset.lms <= 100", "stereoset.lms within 0..100"):
            (verdict,) = gate(run, [rule], by=by)
            assert (verdict.passed, verdict.reason) == (False, "no row has a value")
    (verdict,) = gate(run, ["stereoset.ties == 0"], by="interval")
    assert "every resample gives the same value" in verdict.reason
    before = folder("before")
    after = folder("after", METRICS | {"lms": estimate(90.0)})
    (verdict,) = gate(after, ["stereoset.lms >= baseline"], baseline=before)
    assert not verdict.passed
    assert "the baseline has no value: no row has a value" in verdict.reason


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("stereoset.ss", "TASK.METRIC within A..B"),
        ("ss within 45..55", "TASK.METRIC"),
        ("stereoset.ss within 45", "two bounds"),
        ("stereoset.ss within 55..45", "above the second"),
        ("stereoset.ss within baseline..baseline - 1", "above the second"),
        ("stereoset.ss <= much", "'much' is no bound"),
        ("stereoset.ss <= nan", "is no bound"),
        ("stereoset.ss <= 1e999", "no number that can be reached"),
        ("stereoset.ss = 5", "TASK.METRIC"),
        ("stereoset.ss != 5", "TASK.METRIC"),
        ("stereoset.ss <= baseline * 2", "no bound"),
        ("stereoset.ss[gender] <= 5", "a group is written as"),
        ("stereoset.ss[] <= 5", "a group is written as"),
        ("stereoset.ss[bias_type=] <= 5", "a group is written as"),
        ("stereoset.ss <= baseline", "needs --baseline"),
        ("stereoset.icta <= 5", "did you mean 'icat'?"),
        ("stereose.icat <= 5", "did you mean 'stereoset'?"),
        ("stereoset.ss[bias_type=gendre] <= 5", "did you mean 'bias_type=gender'?"),
        ("stereoset.icat[bias_type=gender] <= 5", "has no metric 'icat'; there is: ss"),
        ("", "TASK.METRIC"),
    ],
)
def test_what_is_no_rule_is_refused(folder, rule, words):
    with pytest.raises(InputError) as error:
        gate(folder(), [rule])
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_groups_value_may_hold_a_comma(folder):
    (verdict,) = gate(folder(), ["stereoset.ss[target=truck driver, night] == 50"])
    assert verdict.passed


def test_no_rule_is_refused_and_an_unlike_baseline_too(folder):
    run = folder()
    with pytest.raises(InputError, match="no rule"):
        gate(run, [])
    for name, entry, words in (
        ("a", {"method": "other"}, "method"), ("b", {"version": 2}, "version"), ("c", {"form": "cloze"}, "form"),
        ("d", {"data": {"source": "t", "sha256": "1" * 64, "n": 1}}, "other data"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            gate(run, ["stereoset.ss <= baseline"], baseline=folder(name, **entry))


def test_every_sign_is_read():
    assert {parse(f"a.b {sign} 1").conditions[0][0] for sign in gates.SIGNS} == set(gates.SIGNS)
    rule = parse("census-us.descriptive >= baseline - 2")
    assert (rule.task, rule.metric, rule.by, rule.needs_baseline()) == ("census-us", "descriptive", {}, True)


HOSTILE = (
    Verdict(rule="a.b <= 1", task="a", passed=True, found="0.5 [0.1, 0.9]"),
    Verdict(rule='a.b[x=<&">] >= 1', task="a", passed=False, found="100%", reason="50% is not >= 1\r\n::error::x\x00"),
)


def test_junit_is_xml_with_a_case_per_rule():
    suites = ET.fromstring(verdicts.junit(HOSTILE))
    (suite,) = suites.findall("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    first, second = suite.findall("testcase")
    assert (first.get("classname"), first.get("name"), first.find("failure")) == ("evenhand.a", "a.b <= 1", None)
    assert second.get("name") == 'a.b[x=<&">] >= 1'
    assert "50% is not >= 1" in second.find("failure").get("message")


def test_github_annotations_stay_one_line_each():
    first, second = map(verdicts.annotation, HOSTILE)
    assert first == "::notice title=evenhand gate::a.b <= 1: 0.5 [0.1, 0.9]"
    assert second.startswith("::error title=evenhand gate::")
    assert "100%25" in second and "%0D%0A" in second
    assert "\n" not in second and "\r" not in second and "\x00" not in second


def test_a_verdict_in_a_line():
    first, second = map(verdicts.line, HOSTILE)
    assert first == "pass  a.b <= 1: 0.5 [0.1, 0.9]"
    assert second.startswith('FAIL  a.b[x=<&">] >= 1: 100% (50% is not >= 1')
    assert "\n" not in second


def test_the_command(cli, folder, tmp_path):
    run = folder()
    good, bad = "stereoset.ss within 45..55", "stereoset.icat >= 75"
    done = cli("gate", run, "--rule", good)
    assert (done.rc, done.stderr) == (0, "")
    assert done.stdout == f"pass  {good}: 52 [47, 57]\n"
    done = cli("gate", run, "--rule", good, "--rule", bad, "--junit", tmp_path / "gate.xml")
    assert (done.rc, done.stderr) == (1, "")
    assert [line[:4] for line in done.stdout.splitlines()] == ["pass", "FAIL"]
    assert ET.parse(tmp_path / "gate.xml").getroot().get("failures") == "1"
    done = cli("gate", run, "--rule", good, "--by", "interval", "--github")
    assert done.rc == 1
    assert done.stdout.startswith("::error title=evenhand gate::")
    done = cli("gate", run, "--rule", "stereoset.icat >= baseline", "--baseline", folder("before"))
    assert done.rc == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "no rule"),
        (["--rule", "stereoset.iact > 1"], "did you mean 'icat'?"),
        (["--rule", "bios.gap_rms <= 0.1"], "no task 'bios'"),
        (["--rule", "stereoset.ss > 1", "--by", "luck"], "--by"),
        (["--rule", "stereoset.ss > 1", "--junit", "absent/gate.xml"], "cannot write absent/gate.xml"),
        (["--rule", "stereoset.ss > baseline", "--baseline", "absent"], "absent is no run folder"),
    ],
)
def test_bad_commands(cli, folder, args, words):
    done = cli("gate", folder(), *args)
    assert (done.rc, done.stdout) == (2, "")
    assert 1 <= done.stderr.count("\n") <= 2
    assert words in done.stderr
