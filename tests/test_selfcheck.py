"""The instrument checks itself: all is right as it stands, and any one metric that is broken is seen."""

import inspect
import json
import socket
import time
import types

import numpy as np
import pytest

from evenhand import selfcheck, tasks
from evenhand.metrics import census, gaps, icat, intervals, preference
from evenhand.report.checks import checks_json, lines
from evenhand.selfcheck.checks import Check, equal, within

# What stands in results.json beside the metrics, or only makes intervals, is not what selfcheck is about.
BESIDE = {"reliability", "variance", "confusion", "draws", "percent", "pearson", "spearman", "lms_both_micro"}
PARTS = {
    preference: selfcheck.cooccurrence.PARTS[:1],
    icat: selfcheck.stereoset.PARTS,
    census: selfcheck.census.PARTS,
    gaps: selfcheck.bios.PARTS,
}
FUNCTIONS = [
    (module, name)
    for module in PARTS
    for name, one in vars(module).items()
    if inspect.isfunction(one) and one.__module__ == module.__name__ and name[0] != "_" and name not in BESIDE
]
TASKS = ("cooccurrence", "cooccurrence-sampled", "stereoset-mini", "census-us", "bios")


def worse(value):
    """Off by a tenth and a bit, not in proportion; truths turned around; counts moved by one place."""
    if isinstance(value, tuple):
        return type(value)(*map(worse, value)) if hasattr(value, "_fields") else tuple(map(worse, value))
    array = np.asarray(value)
    if array.dtype == bool:
        return ~array
    if array.dtype.kind == "i":
        return np.roll(array, 1, axis=-1)
    return array * 0.9 + 0.01 * array**2 + 0.03


@pytest.fixture
def broken(monkeypatch):
    """Breaks a function wherever it is held: its code is exchanged, not its name."""

    def swap(function, turn):
        original = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        monkeypatch.setitem(function.__globals__, "_turned", lambda *args, **kw: turn(original(*args, **kw)))
        monkeypatch.setattr(function, "__code__", eval("lambda *args, **kw: _turned(*args, **kw)").__code__)
        monkeypatch.setattr(function, "__defaults__", None)
        monkeypatch.setattr(function, "__kwdefaults__", None)

    return swap


def failed(parts):
    return [check for part in parts for check in selfcheck.checked(part) if not check.passed]


@pytest.fixture(scope="module")
def checks():
    """Every check, timed."""
    began = time.monotonic()
    found = selfcheck.selfcheck()
    assert time.monotonic() - began < 30
    return found


def test_all_is_right(checks):
    assert not [check for check in checks if not check.passed]
    assert len(checks) > 80


@pytest.mark.parametrize("name", TASKS)
def test_every_metric_is_checked(checks, name):
    named = {check.name.rpartition(": ")[2] for check in checks if check.name.startswith(name)}
    assert not {metric.name for metric in tasks.get(name).card.metrics} - named


def test_every_task_that_asks_in_its_own_way_is_checked():
    same = {"census", "census-uk", "census-no", "census-fr", "stereoset", "bios-synthetic"}  # by other data
    assert set(tasks.known()) - same == set(TASKS)


@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_metric_is_seen(broken, module, name):
    broken(getattr(module, name), worse)
    assert failed(PARTS[module])


def test_the_mean_itself_broken_is_seen_everywhere(broken):
    broken(intervals.ratio, worse)
    for parts in (selfcheck.cooccurrence.PARTS[:1], selfcheck.cooccurrence.PARTS[1:], selfcheck.census.PARTS):
        assert failed(parts)


@pytest.mark.parametrize("turn", [lambda value: value * 0, lambda value: -value, lambda value: value + np.nan])
@pytest.mark.parametrize("function", [icat.icat, icat.ss, icat.ties, preference.likelihood_diff], ids=str)
def test_zero_a_turned_sign_and_nan_are_seen(broken, function, turn):
    broken(function, turn)
    parts = PARTS[preference] if function is preference.likelihood_diff else PARTS[icat]
    assert failed(parts)


def test_an_interval_that_misses_or_is_none_is_seen():
    def entry(low, high):
        return {"metrics": {"ss": {"value": 50.0, "ci_low": low, "ci_high": high}}}

    assert within("x", entry(45.0, 55.0), {"ss": 50})[0].passed
    for ends in ((51.0, 55.0), (40.0, 49.0), (50.0, 50.0), (None, None), (float("nan"), 60.0)):
        assert not within("x", entry(*ends), {"ss": 50})[0].passed


def test_null_is_never_what_was_expected():
    entry = {"metrics": {"ss": {"value": None}, "lms": {"value": 1e-12}}}
    assert [check.passed for check in equal("x", entry, {"ss": 0.0, "lms": 0.0})] == [False, True]


def test_a_part_that_cannot_be_run_is_a_check_that_fails():
    def stumbles(folder):
        raise RuntimeError("no\nway")

    (check,) = selfcheck.checked(stumbles)
    assert (check.passed, check.measured) == (False, "RuntimeError: no\nway")
    assert all("\n" not in line for line in lines([check]))


def test_the_json_says_what_failed():
    found = checks_json([Check("a", 1.0, 1.0, passed=True), Check("b", 1.0, None, passed=False)])
    assert found == {
        "checks": [
            {"name": "a", "expected": 1.0, "measured": 1.0, "pass": True},
            {"name": "b", "expected": 1.0, "measured": None, "pass": False},
        ],
        "pass": False,
    }


def test_no_network(monkeypatch):
    def refuse(*args, **kw):
        raise AssertionError("selfcheck opens a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    assert not failed(selfcheck.cooccurrence.PARTS)


def test_the_command(cli):
    done = cli("selfcheck", "--json", HF_HUB_OFFLINE="1")
    assert (done.rc, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["pass"] is True
    assert all(check["pass"] for check in found["checks"])
    assert '"pass": true' in done.stdout
    done = cli("selfcheck")
    assert done.rc == 0
    assert done.stdout.count("pass  ") == len(found["checks"])
    assert "FAIL" not in done.stdout
