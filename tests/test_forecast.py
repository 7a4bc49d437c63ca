"""--dry-run: the plan's counts, and a time by doing a few steps; nothing is written, a served model is not asked."""

import json
import random
import sys
from pathlib import Path

import pytest

from evenhand import forecast as module
from evenhand.cli import with_ray
from evenhand.forecast import SECONDS, _tried, forecast
from evenhand.models import Identity, Work
from evenhand.models.plan import Slot
from evenhand.models.steps import Step, Stepwise
from evenhand.report.forecast import duration, forecast_line, forecast_table
from evenhand.requests import Continuation
from evenhand.spec import asked

sys.path.insert(0, str(Path(__file__).parent / "models"))
import tiny


class Clock:
    """Time that passes only when work is done."""

    now = 0.0

    def perf_counter(self):
        return self.now


class Paced(Stepwise):
    """A model whose steps take a fixed time, and so long a token, by their kind."""

    def __init__(self, clock, rates, start=0.0):
        self.clock, self.rates, self.start, self.done = clock, rates, start, []

    def smaller(self, step, tokens):
        return Step(step.what, None, step.serves, max(1, min(step.tokens, tokens)), {})

    def do(self, step):
        self.done.append(step)
        self.clock.now += self.start + step.tokens * self.rates[step.what]
        self.start = 0.0
        return [(Slot(i, 0, 0), 0.0) for i in step.serves]


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def steps(what, n, seed=0):
    rng = random.Random(seed)
    return [Step(what, None, (i,), rng.randrange(500, 2000), {}) for i in range(n)]


def test_what_all_steps_take_is_told_by_a_few_of_them(clock):
    work = [*steps("read", 50), *steps("train", 3)]
    model = Paced(clock, {"read": 0.001, "train": 0.002}, start=60)
    whole, spent = _tried(model, work, SECONDS, set())
    assert whole == pytest.approx(sum(step.tokens * model.rates[step.what] for step in work), rel=1e-9)
    assert spent <= SECONDS + 4  # the last step of a kind may go over
    assert 2 < len(model.done) < len(work)
    assert clock.now == pytest.approx(spent + 60, abs=0.1)  # what only the first step costs is apart


def test_a_step_that_is_too_long_is_tried_in_part(clock):
    work = steps("read", 9)
    model = Paced(clock, {"read": 1.0})
    whole, spent = _tried(model, work, 300, set())
    assert whole == pytest.approx(sum(step.tokens for step in work))
    assert spent <= 300


def test_nothing_to_do_takes_no_time(clock):
    assert _tried(Paced(clock, {}), [], SECONDS, set()) == (0.0, 0.0)
    assert _tried(Paced(clock, {}), [Step("look up", None, (), 0, {})], SECONDS, set()) == (0.0, 0.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny causal model's folder."""
    return str(tiny.save(tmp_path_factory.mktemp("gpt2") / "model", "GPT2LMHeadModel"))


def test_the_counts_are_those_of_the_run(model, tmp_path):
    import evenhand

    how = {"tasks": ["cooccurrence", "census-us"], "limit": 40, "batch_tokens": 200, "device": "cpu"}
    nothing = {"data": None, "pack": None, "options": None, "out": tmp_path / "none"}
    found = forecast(asked(model, **how, **nothing), seconds=0.2)
    assert not (tmp_path / "none").exists()
    done = evenhand.run(model, out=tmp_path / "run", bootstrap=0, **how)
    about = json.loads((done.path / "run.json").read_bytes())
    assert [task.requests for task in found.tasks] == [n["unique"] for n in about["requests"].values()]
    assert [task.items for task in found.tasks] == [40, 40]
    work, trials = about["work"], 3  # passes when the model loads
    assert sum(task.passes for task in found.tasks) == work["passes"] - trials
    assert 0 <= work["tokens"] + work["padding"] - sum(task.tokens for task in found.tasks) <= 64
    assert found.seconds == pytest.approx(found.ready + sum(task.seconds for task in found.tasks))
    assert all(task.seconds > 0 for task in found.tasks)


def test_a_model_that_works_elsewhere_is_asked_nothing(monkeypatch, tmp_path):
    class Elsewhere:
        supports, work, device = frozenset({Continuation}), Work(), "served"

        def parts(self, request):
            return tuple(Continuation(request.context, (choice,)) for choice in request.choices)

        def identity(self):
            return Identity(ref="api:x", kind="api", revision=None, fingerprint="0")

        def answer(self, requests, answered):
            raise AssertionError("asked")

    monkeypatch.setattr("evenhand.models.load", lambda ref, options: Elsewhere())
    spec = asked("api:http://x#y", "cooccurrence", data=None, pack=None, options=None, out=tmp_path / "none")
    found = forecast(spec)
    (task,) = found.tasks
    assert (task.items, task.requests, task.passes, task.tokens, task.seconds) == (349, 349, 4 * 349, None, None)
    assert found.seconds is None and "nothing more" in forecast_line(found)
    assert [next(iter(column.cells)) for column in forecast_table(found).columns][-3:] == ["1,396", "-", "-"]


def test_the_command_prints_a_table_or_json_and_writes_nothing(cli, model, tmp_path):
    done = cli("run", model, "--limit", "20", "--dry-run")
    assert done.rc == 0, done.stderr
    assert "cooccurrence" in done.stdout and "in all" in done.stdout
    done = cli("run", model, model + "/.", "--limit", "20", "--dry-run", "--json")
    first, second = json.loads(done.stdout)
    assert first["tasks"][0]["tokens"] == second["tasks"][0]["tokens"] > 0
    assert not (tmp_path / "runs").exists()
    done = cli("run", model, "--tasks", "census", "--dry-run")
    assert done.rc == 2 and done.stderr.startswith("evenhand: census needs --pack")


def test_durations_read_well():
    assert [duration(s) for s in (0.2, 99, 150, 5000, 7200)] == ["0 s", "99 s", "2 min", "83 min", "2.0 h"]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["run", "demo", "--ray"], ["run", "demo", "--ray=auto"]),
        (["run", "--ray", "demo"], ["run", "--ray=auto", "demo"]),
        (["run", "--ray", "local", "demo"], ["run", "--ray=local", "demo"]),
        (["run", "demo", "--ray", "10.0.0.1:6379", "--quiet"], ["run", "demo", "--ray=10.0.0.1:6379", "--quiet"]),
        (["run", "demo", "--ray", "ray://head:10001"], ["run", "demo", "--ray=ray://head:10001"]),
        (["run", "--ray", "masked:bert"], ["run", "--ray=auto", "masked:bert"]),
        (["run", "--ray=auto", "x"], ["run", "--ray=auto", "x"]),
        (["compare", "a", "b"], ["compare", "a", "b"]),
    ],
)
def test_ray_takes_an_address_or_none(args, found):
    assert with_ray(args) == found
