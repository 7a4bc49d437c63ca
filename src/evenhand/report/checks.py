"""selfcheck's checks: expected, measured, pass."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.report.lines import printable

if TYPE_CHECKING:
    from evenhand.selfcheck.checks import Check


def shown(value: float | str | None) -> str:
    """A number with six digits, a word as it is."""
    return "null" if value is None else value if isinstance(value, str) else f"{value:.6g}"


def lines(checks: "Sequence[Check]") -> list[str]:
    """A line per check, and one that says how many pass."""
    rows = [(check.name, shown(check.expected), shown(check.measured)) for check in checks]
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    passed = sum(check.passed for check in checks)
    return [
        *(
            printable(f"{'pass' if check.passed else 'FAIL'}  {name:{first}}  expected {expected:{second}}  is {found}")
            for check, (name, expected, found) in zip(checks, rows, strict=True)
        ),
        f"{passed} of {len(checks)} checks pass",
    ]


def checks_json(checks: "Sequence[Check]") -> dict[str, Any]:
    """The same for `--json`."""
    rows = [
        {"name": check.name, "expected": check.expected, "measured": check.measured, "pass": check.passed}
        for check in checks
    ]
    return {"checks": rows, "pass": all(check.passed for check in checks)}
