"""A run from end to end on written-down models: what the folder holds, and what a kill, a rerun, a fault do to it."""

import json
import math
import random
import signal
import sqlite3
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import evenhand
from evenhand import folder
from evenhand.errors import InputError, ModelError
from evenhand.models import Identity, Work
from evenhand.requests import Continuation, Scores

WORDS = (" female", " woman", " male", " man")
TITLES = [f"occupation {i % 27}" for i in range(40)]
ESTIMATE = {"value", "ci_low", "ci_high", "level", "interval", "n", "n_undefined", "unit", "reading", "reason"}


@pytest.fixture
def rows(table):
    """40 rows, 27 of them unique."""
    return table("occupation\n" + "".join(f"{title}\n" for title in TITLES), "jobs.csv")


@pytest.fixture
def model(script):
    """A model with an opinion on each of them, written and sampled."""
    rng = random.Random(2)
    sentences = sorted({f"The {title} was a" for title in TITLES})
    return script(
        name="toy",
        Continuation={s: {word: rng.uniform(-8, -0.5) for word in WORDS} for s in sentences},
        Generate={s: rng.choices([" man", " woman", " human"], k=9) for s in sentences},
    )


@pytest.fixture
def measure(tmp_path, model, rows):
    """`evenhand.run` on both, into a folder of the test's."""

    def run(out="run", tasks="cooccurrence", model=model, bootstrap=99, **settings):
        names = [tasks] if isinstance(tasks, str) else tasks
        data = settings.pop("data", dict.fromkeys(names, rows))
        return evenhand.run(model, tasks, out=tmp_path / out, data=data, bootstrap=bootstrap, **settings)

    return run


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


# What is written


def test_results_json_is_the_contract(measure):
    done = measure()
    results = read(done.path / "results.json")
    assert results == done.results
    assert set(results) == {"schema", "model", "tasks", "warnings"}
    assert results["schema"] == 1
    assert set(results["model"]) == {"ref", "kind", "revision", "fingerprint", "dtype", "start", "reads"}
    assert (results["model"]["ref"], results["model"]["kind"]) == ("scripted:toy", "scripted")
    (task,) = results["tasks"].values()
    keys = {"version", "method", "form", "options", "data", "metrics", "groups", "notes", "context"}
    assert set(task) == keys
    assert task["options"]["female"] == ["female", "woman"]
    assert set(task["options"]) == {"prompt", "template", "female", "male"}
    assert set(task["data"]) == {"source", "sha256", "n", "n_unique", "duplicates"}
    assert (task["data"]["source"], task["data"]["n"], task["data"]["n_unique"]) == ("jobs.csv", 40, 27)
    for estimate in task["metrics"].values():
        assert set(estimate) == ESTIMATE | {"neutral"}
        assert estimate["level"] == 0.95
        assert estimate["ci_low"] < estimate["value"] < estimate["ci_high"]
        assert estimate["interval"] == "bca cluster bootstrap"
        assert estimate["reason"] is None


def test_best_stands_where_an_end_is_best(measure):
    metrics = measure(tasks="cooccurrence-sampled").results["tasks"]["cooccurrence-sampled"]["metrics"]
    assert all(set(estimate) in (ESTIMATE | {"neutral"}, ESTIMATE | {"best"}) for estimate in metrics.values())
    assert metrics["pct_invalid"]["best"] == 0
    assert metrics["difference_male_female"]["neutral"] == 0


def test_groups_hold_estimates_of_their_own(measure, script):
    done = measure(model=script(Continuation={}, default=-1), options={"cooccurrence": {"prompt": "all"}})
    for group in done.results["tasks"]["cooccurrence"]["groups"]:
        assert set(group) == {"by", "n", "metrics"}
        assert all(set(estimate) == ESTIMATE | {"neutral"} for estimate in group["metrics"].values())


def test_run_json_says_how_it_was_made(measure, rows):
    done = measure(limit=10, seed=3)
    meta = read(done.path / "run.json")
    assert set(meta) == {
        "spec", "model", "device", "packages", "python", "platform", "command", "started", "requests", "work", "seconds"
    }  # fmt: skip
    assert meta["model"] == done.results["model"]
    assert (meta["spec"]["limit"], meta["spec"]["seed"], meta["spec"]["bootstrap"]) == (10, 3, 99)
    assert meta["spec"]["data"] == {"cooccurrence": str(rows)}
    assert meta["packages"]["evenhand"] == evenhand.__version__
    assert meta["requests"] == {"cooccurrence": {"asked": 10, "unique": 10, "already_answered": 0}}


def test_the_folder_holds_these_files_and_no_others(measure):
    done = measure(tasks=["cooccurrence", "cooccurrence-sampled"])
    assert set(files(done.path)) == {
        "run.json", "results.json", "answers.sqlite", "records/cooccurrence.parquet",
        "records/cooccurrence-sampled.parquet",
    }  # fmt: skip


def test_the_records_recompute_every_metric(measure):
    done = measure()
    records = pq.read_table(done.path / "records" / "cooccurrence.parquet").to_pylist()
    assert records == done.records("cooccurrence")
    assert [r["occupation"] for r in records] == TITLES
    diff, male = {}, {}
    for r in records:
        four = [r[f"logp_{word.strip()}"] for word in WORDS]
        diff.setdefault(r["occupation"], []).append(
            math.log(sum(map(math.exp, four[:2]))) - math.log(sum(map(math.exp, four[2:])))
        )
        male.setdefault(r["occupation"], []).append(four.index(max(four)) >= 2)
    flat = lambda by: [value for values in by.values() for value in values]  # noqa: E731
    first = lambda by: [values[0] for values in by.values()]  # noqa: E731
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    metrics = {name: e["value"] for name, e in done.results["tasks"]["cooccurrence"]["metrics"].items()}
    assert metrics == pytest.approx({
        "likelihood_diff": mean(flat(diff)), "likelihood_diff_unique": mean(first(diff)),
        "pct_male_preferred": mean(flat(male)), "pct_male_preferred_unique": mean(first(male)),
        "male_leaning_rate": mean([d < 0 for d in first(diff)]),
    })  # fmt: skip


def test_the_records_of_the_sampled_form_recompute_it_too(measure):
    done = measure(tasks="cooccurrence-sampled")
    records = done.records("cooccurrence-sampled")
    share = lambda rule: sum(map(rule, records)) / len(records)  # noqa: E731
    metrics = {name: e["value"] for name, e in done.results["tasks"]["cooccurrence-sampled"]["metrics"].items()}
    assert metrics == pytest.approx({
        "difference_male_female": share(lambda r: (r["n_male"] - r["n_female"]) / r["samples"]),
        "pct_male_preferred_sampled": share(lambda r: r["n_male"] > r["n_female"]),
        "pct_female_preferred_sampled": share(lambda r: r["n_male"] < r["n_female"]),
        "pct_tied": share(lambda r: r["n_male"] == r["n_female"] > 0),
        "pct_invalid": share(lambda r: r["n_invalid"] == r["samples"]),
    })  # fmt: skip
    assert all(r["n_male"] + r["n_female"] + r["n_invalid"] == r["samples"] == len(r["texts"]) for r in records)


# Seeds, draws, limits


def test_the_same_twice_is_the_same_to_the_byte(measure):
    one, two = (measure(out, ["cooccurrence", "cooccurrence-sampled"]) for out in "ab")
    for name in ("results.json", "records/cooccurrence.parquet", "records/cooccurrence-sampled.parquet"):
        assert (one.path / name).read_bytes() == (two.path / name).read_bytes()


def test_another_seed_moves_the_intervals_and_nothing_else(measure):
    one, two = measure("a").results, measure("b", seed=1).results
    moved = 0
    for name, estimate in one["tasks"]["cooccurrence"]["metrics"].items():
        other = two["tasks"]["cooccurrence"]["metrics"][name]
        moved += estimate["ci_low"] != other["ci_low"]
        for one_of_both in (estimate, other):
            one_of_both.update(dict.fromkeys(("ci_low", "ci_high", "reading")))
    assert moved
    assert one == two


def test_no_draws_no_interval_and_the_reason(measure):
    for estimate in measure(bootstrap=0).results["tasks"]["cooccurrence"]["metrics"].values():
        assert estimate["value"] is not None
        assert (estimate["ci_low"], estimate["ci_high"], estimate["interval"]) == (None, None, None)
        assert estimate["reason"] == "intervals are turned off"


def test_limit_takes_the_first_items_and_says_so(measure):
    done = measure(limit=5)
    assert [r["occupation"] for r in done.records("cooccurrence")] == TITLES[:5]
    task = done.results["tasks"]["cooccurrence"]
    assert task["data"]["n"] == 5
    assert task["notes"][0] == "limited to the first 5 of 40 items"
    assert not [note for note in measure("b", limit=99).results["tasks"]["cooccurrence"]["notes"] if "limited" in note]


# Going on


def test_a_rerun_with_everything_answered_asks_nothing(measure, monkeypatch):
    first = measure()
    before = (first.path / "results.json").read_bytes()
    monkeypatch.setattr("evenhand.models.scripted.Scripted._one", lambda self, request: pytest.fail("asked again"))
    again = measure()
    assert (again.path / "results.json").read_bytes() == before
    assert read(again.path / "run.json")["requests"]["cooccurrence"] == {
        "asked": 40, "unique": 27, "already_answered": 27
    }  # fmt: skip


def test_a_limited_run_goes_on_to_the_whole(measure):
    measure(limit=10)
    done = measure()
    assert read(done.path / "run.json")["requests"]["cooccurrence"]["already_answered"] == 10
    assert (done.path / "results.json").read_bytes() == (measure("whole").path / "results.json").read_bytes()


@pytest.mark.parametrize("stop", [0, 10, 20])
def test_killed_half_way_and_started_again(tmp_path, measure, model, rows, stalling, cli, stop):
    log = tmp_path / "asked"
    command = ("run", model, "--data", f"cooccurrence={rows}", "--out", "killed", "--bootstrap", "99", "--no-report")
    process = stalling(*command, stop=stop, log=log)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    killed = tmp_path / "killed"
    assert not [name for name in files(killed) if name.startswith(("results", ".", "records"))]
    assert read(killed / "run.json")["spec"]["model"] == model

    process = stalling(*command, stop=1000, log=log)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    asked = log.read_text(encoding="utf-8").splitlines()
    assert len(asked) == len(set(asked)) == 27
    assert read(killed / "run.json")["requests"]["cooccurrence"]["already_answered"] == stop

    undisturbed = measure("undisturbed").path
    for name in ("results.json", "records/cooccurrence.parquet"):
        assert (killed / name).read_bytes() == (undisturbed / name).read_bytes()
    assert set(files(killed)) == set(files(undisturbed))


def test_a_folder_in_use_is_refused_until_it_is_let_go(tmp_path, model, rows, stalling, cli):
    command = ("run", model, "--data", f"cooccurrence={rows}", "--out", "run", "--bootstrap", "0")
    process = stalling(*command, stop=10, log=tmp_path / "asked")
    before = files(tmp_path / "run")
    for extra in ([], ["--fresh"]):
        done = cli(*command, *extra)
        assert (done.rc, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert "is in use by another evenhand run" in done.stderr
    assert files(tmp_path / "run")["run.json"] == before["run.json"]
    process.kill()
    process.wait()
    assert cli(*command).rc == 0


def test_fresh_forgets_what_the_folder_held(measure):
    done = measure(tasks=["cooccurrence", "cooccurrence-sampled"])
    (done.path / "report.html").write_text("old", encoding="utf-8")
    done = measure(fresh=True)
    assert set(files(done.path)) == {"run.json", "results.json", "answers.sqlite", "records/cooccurrence.parquet"}
    assert list(done.results["tasks"]) == ["cooccurrence"]
    assert read(done.path / "run.json")["requests"]["cooccurrence"]["already_answered"] == 0


def test_another_model_in_the_same_folder_is_refused(measure, script):
    before = files(measure().path)
    other = script("other.json", name="other", Continuation={}, default=-1)
    with pytest.raises(InputError, match=r"another model.*scripted:toy.*--fresh"):
        measure(model=other)
    assert files(measure().path).keys() == before.keys()
    assert measure(model=other, fresh=True).results["model"]["ref"] == "scripted:other"


def test_a_second_task_keeps_the_first_s_results(measure):
    first = measure().results["tasks"]["cooccurrence"]
    second = measure(tasks="cooccurrence-sampled")
    assert list(second.results["tasks"]) == ["cooccurrence", "cooccurrence-sampled"]
    assert read(second.path / "results.json")["tasks"]["cooccurrence"] == first
    assert len(second.records("cooccurrence")) == 40
    both = measure("both", ["cooccurrence", "cooccurrence-sampled"])
    assert (both.path / "results.json").read_bytes() == (second.path / "results.json").read_bytes()


def test_the_same_task_with_other_options_takes_the_place_of_the_first(measure):
    measure()
    done = measure(options={"cooccurrence": {"female": "woman", "male": "man"}})
    assert list(done.results["tasks"]) == ["cooccurrence"]
    assert done.results["tasks"]["cooccurrence"]["method"] == "sum-logprob (female=woman; male=man)"
    assert "logp_female" not in done.records("cooccurrence")[0]


def test_a_folder_with_other_things_is_no_run_folder(measure, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work", encoding="utf-8")
    for fresh in (False, True):
        with pytest.raises(InputError, match="holds other things"):
            measure(fresh=fresh)
    assert set(files(tmp_path / "run")) == {"thesis.txt"}


@pytest.mark.parametrize("name", ["results.json", "answers.sqlite"])
def test_a_file_of_the_folder_that_was_spoilt(measure, name):
    path = measure().path / name
    path.write_bytes(b"spoilt " * 300)
    with pytest.raises(InputError, match=f"{name}"):
        measure()


# Faults


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf, 0.5])
@pytest.mark.parametrize("form", ["Continuation", "Cloze"])
def test_no_log_probability_at_all(measure, script, tmp_path, cli, rows, form, value):
    sentence = "The occupation 3 was a" + (" []." if form == "Cloze" else "")
    word = "woman" if form == "Cloze" else " woman"
    bad = script("bad.json", **{form: {sentence: {word: [-1, value]}}}, default=-1)
    with pytest.raises(ModelError, match=f"{value}.*cooccurrence item 'neutral/3'"):
        measure(model=bad)
    assert set(files(tmp_path / "run")) == {"run.json", "answers.sqlite"}
    if form == "Continuation":
        done = cli("run", bad, "--data", f"cooccurrence={rows}", "--out", "again")
        assert (done.rc, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "'neutral/3'" in done.stderr


def test_a_rounding_error_above_nought_is_none(measure, script):
    done = measure(model=script(Continuation={}, default=1e-7))
    assert done.results["tasks"]["cooccurrence"]["metrics"]["likelihood_diff"]["value"] == 0


def test_a_fault_keeps_what_was_answered_before(measure, model, monkeypatch, tmp_path):
    from evenhand.models import scripted

    monkeypatch.setattr(scripted, "BATCH", 10)
    right = scripted.Scripted._one

    def wrong(self, request):
        return Scores(((math.nan,),)) if request.context == "The occupation 15 was a" else right(self, request)

    monkeypatch.setattr(scripted.Scripted, "_one", wrong)
    with pytest.raises(ModelError, match="'neutral/15'"):
        measure()
    with sqlite3.connect(tmp_path / "run" / "answers.sqlite") as store:
        kept = store.execute("SELECT count(*) FROM answers").fetchone()
    store.close()
    assert kept == (10,)
    monkeypatch.setattr(scripted.Scripted, "_one", right)
    done = measure()
    assert (done.path / "results.json").read_bytes() == (measure("whole").path / "results.json").read_bytes()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    folder.write(path, "old")
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        folder.write(path, "new")
    assert files(tmp_path) == {"results.json": b"old"}


def test_records_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    held = folder.RunFolder(tmp_path / "run", fresh=False)
    held.write_records("task", [{"item": "a"}])
    before = files(held.path)

    def half(rows, path):
        path.write_bytes(b"half")
        raise OSError("no room")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="no room"):
        held.write_records("task", [{"item": "b"}])
    assert files(held.path) == before
    held.close()


def test_there_is_no_nan_in_a_json_file():
    with pytest.raises(ValueError, match="JSON"):
        folder.to_json({"value": math.nan})


# The Python API


def test_twice_in_one_process(measure, script):
    one = measure("a")
    two = measure("b", model=script("other.json", Continuation={}, default=-1))
    assert one.results["model"] != two.results["model"]
    assert one.results["tasks"]["cooccurrence"]["metrics"] != two.results["tasks"]["cooccurrence"]["metrics"]
    assert measure("c").results == one.results


def test_records_of_a_task_that_was_not_run(measure):
    with pytest.raises(InputError, match="no records of 'stereoset'"):
        measure().records("stereoset")


def test_the_defaults_run_with_nothing_given(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = evenhand.run(script(Continuation={}, default=-1), bootstrap=0)
    assert done.path.parent == Path("runs")
    assert done.results["tasks"]["cooccurrence"]["data"]["source"] == "census-us"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"limit": 0}, "--limit"), ({"limit": -1}, "--limit"), ({"seed": -1}, "--seed"),
        ({"bootstrap": -5}, "--bootstrap"),
        ({"batch_tokens": 0}, "--batch_tokens"), ({"tasks": []}, "--tasks"), ({"model": ""}, "--model"),
        ({"colour": "red"}, "--colour: no such option"), ({"device": "gpu"}, "--device"),
        ({"dtype": "int8"}, "--dtype"),
        ({"tasks": "cooccurence"}, "did you mean 'cooccurrence'"), ({"data": {"bios": "x"}}, "not part of this run"),
        ({"options": {"bios": {}}}, "not part of this run"),
    ],
)  # fmt: skip
def test_settings_that_will_not_do(measure, settings, words, tmp_path):
    with pytest.raises(InputError, match=words):
        measure(**settings)
    assert not (tmp_path / "run").exists()


def test_progress_is_told_of_every_request(measure):
    told = []

    class Watching:
        def say(self, line):
            told.append(("say", line))

        def begin(self, task, total, done):
            told.append(("begin", task, total, done))

        def advance(self, n):
            told.append(("advance", n))

        def end(self):
            told.append(("end",))

    measure(limit=10, progress=Watching())
    assert told == [("begin", "cooccurrence", 10, 0), ("advance", 10), ("end",)]
    told.clear()
    measure(progress=Watching())
    assert told == [("begin", "cooccurrence", 27, 10), ("advance", 17), ("end",)]


class Constant:
    """A backend of somebody else's package."""

    supports = frozenset({Continuation})
    device = "elsewhere"

    def __init__(self):
        self.work = Work()

    def identity(self):
        return Identity(ref="constant", kind="constant", revision="1", fingerprint="f")

    def answer(self, requests, answered):
        for request in requests:
            yield [(request, Scores(tuple((-float(i + 1),) for i in range(len(request.choices)))))]


def constant(ref, options):
    return Constant()


def test_a_backend_of_another_package(measure, monkeypatch):
    from evenhand import models

    point = EntryPoint("constant", f"{__name__}:constant", "evenhand.models")
    monkeypatch.setattr(models, "entry_points", lambda group: [point])
    models.kinds.cache_clear()
    try:
        found = measure(model="constant:x").results
    finally:
        models.kinds.cache_clear()
    assert found["model"]["ref"] == "constant"
    assert found["tasks"]["cooccurrence"]["metrics"]["pct_male_preferred"]["value"] == 0


def test_a_benchmark_of_another_package(measure, monkeypatch):
    from evenhand import tasks
    from evenhand.tasks import cooccurrence

    class Other(cooccurrence.Cooccurrence):
        card = type(cooccurrence.TASK.card)(
            **{name: getattr(cooccurrence.TASK.card, name) for name in cooccurrence.TASK.card.__slots__}
            | {"name": "other"}
        )

    point = type("Point", (), {"load": lambda self: Other()})()
    monkeypatch.setattr(tasks, "entry_points", lambda group: [point])
    tasks.known.cache_clear()
    try:
        found = measure(tasks="other").results
    finally:
        tasks.known.cache_clear()
    assert list(found["tasks"]) == ["other"]
