"""Runs against a server on this machine: a scripted model's results exactly, faults, resume, and the key in no file."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import evenhand
from api_server import STYLES, serving

TITLES = [f"{kind} {what}" for kind in ("head", "junior", "chief") for what in ("nurse", "guard", "clerk", "baker")]
WORDS = (" female", " woman", " male", " man")
KEY = "sk-0123456789abcdef-secret"


def numbers(i, j):
    """Log-probabilities of one to three tokens that no rounding leaves as they are."""
    return [-(1 + i / 7 + j / 3 + k / 11) for k in range(1 + (i + j) % 3)]


SCRIPT = {
    "name": "toy",
    "Continuation": {
        f"The {title} was a": {word: numbers(i, j) for j, word in enumerate(WORDS)} for i, title in enumerate(TITLES)
    },
    "Generate": {f"The {title} was a": [" woman.", " tall man.", " clerk."] for title in TITLES},
}
TEXTS = len(TITLES) * len(WORDS)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No key, no proxy, and what was set for another server."""
    for name in list(os.environ):
        if name.startswith("EVENHAND_API_"):
            monkeypatch.delenv(name)


@pytest.fixture
def quick(monkeypatch):
    """Pauses between attempts that a test can wait for."""
    monkeypatch.setattr("evenhand.models.served.FIRST_PAUSE", 0.01)


@pytest.fixture
def rows(table):
    return table("occupation\n" + "".join(f"{title}\n" for title in TITLES))


@pytest.fixture
def measure(tmp_path, rows):
    """Runs a task on a model through the library."""

    def run(model, name="out", task="cooccurrence", **settings):
        return evenhand.run(model, task, out=tmp_path / name, data={task: rows}, bootstrap=99, **settings)

    return run


def ref(server):
    return f"api:{server.url}#toy"


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("style", [name for name in STYLES if name not in ("texts", "deaf", "chat")])
def test_a_served_script_gives_the_script_s_results(measure, script, style):
    with serving(SCRIPT, style) as server:
        here, there = measure(script(**SCRIPT), "here"), measure(ref(server), "there")
    assert there.results["tasks"] == here.results["tasks"]
    assert there.records("cooccurrence") == here.records("cooccurrence")
    assert (there.results["model"]["kind"], there.results["model"]["ref"]) == ("api", ref(server))
    assert there.results["model"]["reads"].startswith(("echo + logprobs", "prompt_logprobs"))
    scored = [body for body in server.asked if body["prompt"].startswith("The ")]
    assert len(scored) == len({body["prompt"] for body in scored}) == TEXTS
    meta = json.loads((there.path / "run.json").read_text())
    assert meta["work"]["passes"] == len(server.asked) and meta["work"]["rows"] == TEXTS
    assert meta["device"] == "served"


@pytest.mark.parametrize("style", ["vllm", "texts", "llama.cpp"])
def test_sampled_words_come_from_any_server_that_writes(measure, script, style):
    options = {"cooccurrence-sampled": {"samples": 2 if style != "llama.cpp" else 1}}
    with serving(SCRIPT, style) as server:
        here = measure(script(**SCRIPT), "here", "cooccurrence-sampled", options=options)
        there = measure(ref(server), "there", "cooccurrence-sampled", options=options)
    assert there.results["tasks"] == here.results["tasks"]


def test_a_server_without_log_probabilities_cannot_run_this(cli, rows):
    with serving(SCRIPT, "deaf") as server:
        done = cli("run", ref(server), "--data", f"cooccurrence={rows}", "--out", "out", "-q")
    assert done.rc == 2 and done.stdout == ""
    assert "asks for Continuation" in done.stderr and "answers Chat, Generate" in done.stderr
    assert len(server.asked) == 1


# --- faults: each finishes with the same numbers, or stops with one line and goes on from there


PASSING = {
    "500s": ["500", "500", "500"],
    "429 with Retry-After": ["429 0.05", "429 0.02", "429"],
    "cut connections": ["cut", "cut", "cut", "cut"],
    "wrong JSON": ["notjson", "notjson"],
    "slow answers": ["slow 0.6", "slow 0.6"],
    "all of them": ["500", "cut", "notjson", "503", "429 0.01", "slow 0.6", "cut", "500"],
}


@pytest.mark.parametrize("faults", PASSING.values(), ids=PASSING)
def test_what_passes_changes_no_number_and_asks_for_nothing_twice(measure, script, quick, monkeypatch, faults):
    monkeypatch.setenv("EVENHAND_API_TIMEOUT", "0.3")
    monkeypatch.setenv("EVENHAND_API_CONCURRENCY", "3")
    here = measure(script(**SCRIPT), "here")
    with serving(SCRIPT) as server:
        server.faults = [None, *(fault for fault in faults for fault in (None, fault, None))]
        there = measure(ref(server), "there")
    assert there.results["tasks"] == here.results["tasks"]
    assert not server.paid_twice()
    assert len(server.asked) == 1 + TEXTS + len(faults)
    assert server.most <= 3


LASTING = {
    "500s": ("500", "answers 500 (try later), 5 times over"),
    "429 for an hour": ("429 3600", "asks to wait for 3600 s"),
    "cut connections": ("cut", "breaks off"),
    "slow answers": ("slow 0.6", "does not answer in 0.2 s"),
    "wrong JSON": ("notjson", "what is not JSON (<html>busy</html>)"),
    "fewer log-probabilities than tokens": ("short", "log-probabilities for the"),
    "a refusal": ("400 context length exceeded", "answers 400: context length exceeded"),
}


BAD = "The junior clerk was a male"


@pytest.mark.parametrize(("fault", "message"), LASTING.values(), ids=LASTING)
def test_what_lasts_stops_and_the_same_run_goes_on(measure, script, tmp_path, quick, monkeypatch, fault, message):
    monkeypatch.setenv("EVENHAND_API_CONCURRENCY", "2")
    here = measure(script(**SCRIPT), "here")
    with serving(SCRIPT) as server, monkeypatch.context() as patience:
        patience.setenv("EVENHAND_API_TIMEOUT", "0.2" if fault.startswith("slow") else "30")
        server.fault = lambda body: fault if body["prompt"] == BAD else None
        with pytest.raises(evenhand.errors.ModelError, match=re.escape(message)):
            measure(ref(server))
        assert not (tmp_path / "out" / "results.json").exists()
        first, asked = list(server.paid), [body["prompt"] for body in server.asked]
        assert asked.count(BAD) <= 5 and TEXTS / 4 < len(first) <= TEXTS
        patience.undo()
        server.fault, server.asked = (lambda body: None), []
        there = measure(ref(server))
    assert there.results["tasks"] == here.results["tasks"]
    assert len(server.asked) == 1 + TEXTS - (len(first) - 1)
    assert server.paid_twice() == first[:1]  # the probe alone, which every start asks


@pytest.mark.parametrize("fault", ["fewer log-probabilities than tokens", "500s"])
def test_a_command_stops_with_one_line_and_goes_on(cli, rows, measure, script, tmp_path, fault):
    fault, message = LASTING[fault]
    here = measure(script(**SCRIPT), "here")
    with serving(SCRIPT) as server:
        command = ("run", ref(server), "--data", f"cooccurrence={rows}", "--out", "out", "-q", "--bootstrap", "99")
        server.fault = lambda body: fault if body["prompt"] == BAD else None
        done = cli(*command)
        assert (done.rc, done.stdout) == (3, "")
        assert done.stderr.count("\n") == 1 and message in done.stderr
        server.fault = lambda body: None
        done = cli(*command)
        assert (done.rc, done.stderr) == (0, "")
        assert len(server.paid) == 2 + TEXTS and server.paid_twice() == server.paid[:1]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["tasks"] == here.results["tasks"]


def test_a_server_that_is_not_there(cli, rows):
    with serving(SCRIPT) as server:
        pass
    done = cli("run", ref(server), "--data", f"cooccurrence={rows}", "--out", "out")
    assert (done.rc, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert server.url in done.stderr and "is the server running?" in done.stderr


def test_samples_that_were_drawn_one_by_one_are_not_drawn_again(measure, quick):
    task, options = "cooccurrence-sampled", {"cooccurrence-sampled": {"samples": 5}}
    with serving(SCRIPT, "llama.cpp") as server:
        server.fault = lambda body: "400" if body["prompt"].startswith("The chief") and body.get("n") == 1 else None
        with pytest.raises(evenhand.errors.ModelError):
            measure(ref(server), task=task, options=options)
        server.fault = lambda body: None
        done = measure(ref(server), task=task, options=options)
    drawn = [json.loads(body) for body in server.paid if "seed" in json.loads(body)]
    assert len(drawn) == len(TITLES) * 5 == len({body["seed"] for body in drawn})
    assert done.results["tasks"][task]["metrics"]["pct_invalid"]["value"] == 0


def test_an_interrupt_keeps_what_is_paid_for(rows, tmp_path, script, measure):
    here = measure(script(**SCRIPT), "here")
    # A shell's background job has interrupts ignored, and hands that on to what it starts.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from evenhand import cli; cli.main()"
    )
    with serving(SCRIPT) as server:
        command = [sys.executable, "-c", code, "run", ref(server), "--data", f"cooccurrence={rows}", "--out", "out"]
        command += ["-q", "--bootstrap", "99"]
        server.delay = 0.15
        environment = os.environ | {"EVENHAND_API_CONCURRENCY": "4"}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip
        until = time.monotonic() + 60
        while len(server.paid) < 10 and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130 and said.count("\n") == 1
        paid = len(server.paid)
        assert paid < TEXTS
        server.delay = 0
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0
    assert len(server.paid) == 2 + TEXTS and server.paid_twice() == [server.paid[0]]
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["tasks"] == here.results["tasks"]


# --- the key


@pytest.mark.parametrize("fault", [None, "echo-key"])
def test_the_key_is_in_no_file_and_in_no_output(cli, rows, tmp_path, fault):
    with serving(SCRIPT) as server:
        server.faults = [None, None, fault]
        command = ("--debug", "run", ref(server), "--data", f"cooccurrence={rows}", "--out", "out")
        done = cli(*command, EVENHAND_API_KEY=KEY)
    assert server.keys == {f"Bearer {KEY}"}
    assert (done.rc == 0) == (fault is None), done.stderr
    assert KEY not in done.stdout and KEY not in done.stderr
    assert "***" in done.stderr or not fault
    found = files(tmp_path / "out")
    assert len(found) >= 2 and not any(KEY.encode() in raw for raw in found.values())


def test_a_password_in_the_reference_is_written_nowhere(cli, tmp_path):
    done = cli("run", "api:http://me:hush-hush@127.0.0.1:1/v1#toy", "--out", "out")
    assert done.rc == 2 and "EVENHAND_API_KEY" in done.stderr and "hush-hush" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_offline_asks_a_server_here_and_none_elsewhere(cli, rows):
    with serving(SCRIPT) as server:
        done = cli("run", ref(server), "--data", f"cooccurrence={rows}", "--out", "out", "--offline", "-q")
    assert done.rc == 0, done.stderr
    done = cli("run", "api:https://models.example.org/v1#toy", "--data", f"cooccurrence={rows}", "--offline")
    assert done.rc == 2 and "--offline" in done.stderr
