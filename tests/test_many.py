"""Several models in one command: a run folder each, then the comparison; what fails alone and what fails at once."""

import gc
import json
import signal
import weakref

import pytest

import evenhand
from evenhand import many, run_many
from evenhand.compare import compare
from evenhand.errors import InputError, ModelError
from evenhand.models import scripted
from evenhand.report.differences import comparison as tables

SMALL = {"limit": 12, "bootstrap": 99}


@pytest.fixture
def step(script):
    """A scripted model of a training's step: the words for men are likelier by its number; with no number, it fails."""

    def write(number, **sections):
        default = "no number" if number is None else -2
        female = {f" {word}": -2 - (number or 0) / 1000 for word in ("female", "woman")}
        titles = ("chief executive", "legislator", "marketing manager")
        written = {f"The {title} was a": female for title in titles}
        return script(f"step{number}.json", **{"Continuation": written, "default": default} | sections)

    return write


def test_each_model_has_its_run_and_all_are_compared_with_the_first(step, tmp_path):
    models = [step(n) for n in (100, 200, 300)]
    found = run_many(models, "cooccurrence", out=tmp_path / "all", **SMALL)
    assert list(found.runs) == models and not found.failures
    assert [run.path for run in found.runs.values()] == [tmp_path / "all" / f"step{n}" for n in (100, 200, 300)]
    paths = [run.path for run in found.runs.values()]
    assert found.comparison == compare(paths, bootstrap=99)
    assert json.loads((tmp_path / "all" / many.COMPARISON).read_bytes()) == found.comparison
    alone = evenhand.run(models[1], out=tmp_path / "alone", **SMALL)
    assert alone.results == found.runs[models[1]].results
    for run in found.runs.values():
        assert json.loads((run.path / "results.json").read_bytes()) == run.results


def test_the_same_again_asks_nothing_twice(step, tmp_path):
    models = [step(n) for n in (100, 200)]
    first = run_many(models, out=tmp_path / "all", **SMALL)
    again = run_many(models, out=tmp_path / "all", **SMALL)
    assert again.comparison == first.comparison
    for run in again.runs.values():
        counts = json.loads((run.path / "run.json").read_bytes())["requests"]["cooccurrence"]
        assert counts["already_answered"] == counts["unique"] > 0


def test_a_model_that_fails_does_not_stop_the_others(step, script, tmp_path):
    other = script("other.json", Embed={"x": [1]})
    models = [step(None), step(100), other, step(200)]
    seen, done = {}, []
    found = run_many(models, out=tmp_path / "all", done=lambda run: done.append(run.path.name), failed=seen.__setitem__,
                     **SMALL)  # fmt: skip
    assert list(found.failures) == list(seen) == [models[0], other]
    assert [type(error) for error in found.failures.values()] == [ModelError, evenhand.UnsupportedError]
    assert done == ["step100", "step200"] == [run.path.name for run in found.runs.values()]
    assert found.comparison["baseline"]["run"].endswith("step100")
    assert all(error.__traceback__ is None for error in found.failures.values())


def test_an_error_that_nobody_foresaw_is_that_model_s_too(step, tmp_path, monkeypatch):
    answer = scripted.Scripted._one
    monkeypatch.setattr(
        scripted.Scripted, "_one", lambda self, request: 1 / 0 if "step100" in self._ref else answer(self, request)
    )
    found = run_many([step(100), step(200)], out=tmp_path / "all", **SMALL)
    assert [type(error) for error in found.failures.values()] == [ZeroDivisionError]
    assert len(found.runs) == 1 and found.comparison is None
    assert not (tmp_path / "all" / many.COMPARISON).exists()


@pytest.mark.parametrize("numbers", [(100, 200, 300), (None, 200, None, 300)])
def test_a_model_is_let_go_before_the_next_one_loads(step, script, tmp_path, monkeypatch, numbers):
    alive, most, load = weakref.WeakSet(), [], scripted.load

    def watched(ref, options):
        most.append(len(alive))
        model = load(ref, options)
        model.itself = model  # a cycle, as models have
        alive.add(model)
        return model

    monkeypatch.setattr(scripted, "load", watched)
    models = [step(n) if n else script(f"bad{i}.json", default="x") for i, n in enumerate(numbers)]
    gc.disable()
    try:
        found = run_many(models, out=tmp_path / "all", **SMALL)
    finally:
        gc.enable()
    assert most == [0] * len(numbers) * 2  # once to see that it is there
    assert len(found.runs) + len(found.failures) == len(numbers)


def test_what_cannot_be_compared_is_left_out_and_said(step, script, tmp_path):
    cloze = script("masked.json", Cloze={}, default=-2)
    models = [step(100), cloze, step(200)]
    found = run_many(models, out=tmp_path / "all", **SMALL)
    assert not found.failures
    (task,) = found.comparison["tasks"].values()
    assert [one["run"] for one in task["against"]] == [str(tmp_path / "all" / "step200")]
    (note,) = found.comparison["notes"]
    assert note.startswith("cooccurrence cannot be compared: ") and "masked" in note
    alone = run_many(models[:2], out=tmp_path / "two", **SMALL)
    assert alone.comparison["tasks"] == {} and len(alone.comparison["notes"]) == 1
    assert len(alone.runs) == 2


@pytest.mark.parametrize(
    ("tasks", "settings", "said"),
    [
        ("zebra", {}, "no task 'zebra'"),
        ("cooccurrence", {"data": {"cooccurrence": "absent.csv"}}, "cannot read absent.csv"),
        ("cooccurrence", {"options": {"cooccurrence": {"colour": "red"}}}, "no such option"),
        ("cooccurrence", {"device": "gpu"}, "--device: 'gpu'"),
    ],
)
def test_what_is_wrong_for_all_is_found_before_any_model_loads(step, tmp_path, monkeypatch, tasks, settings, said):
    monkeypatch.setattr(scripted, "load", lambda ref, options: pytest.fail("a model was loaded"))
    with pytest.raises(InputError) as caught:
        run_many([step(100), step(200)], tasks, out=tmp_path / "all", **settings)
    assert said in str(caught.value)
    assert not (tmp_path / "all").exists()


def test_a_model_that_is_not_there_is_told_before_any_is_measured(step, tmp_path, cli):
    with pytest.raises(InputError, match=r"^cannot read the script .*absent.json"):
        run_many([step(100), f"scripted:{tmp_path / 'absent.json'}"], out=tmp_path / "all", **SMALL)
    assert not (tmp_path / "all").exists()
    done = cli("run", step(100), "no/such", "--offline", "--out", "all", "--quiet")
    assert done.rc == 2 and done.stderr.count("\n") == 1 and done.stderr.count("no/such") == 1
    assert not (tmp_path / "all").exists()


def test_two_models_never_share_a_folder(step, tmp_path):
    one = step(100)
    with pytest.raises(InputError, match="is named twice"):
        run_many([one, step(200), one], out=tmp_path / "all")
    other = f"scripted:{tmp_path}/../{tmp_path.name}/step100.json"
    with pytest.raises(InputError, match=r"would both be kept in .*step100; run them apart"):
        run_many([one, other], out=tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_run_folder_cannot_stand_above_others(step, tmp_path):
    evenhand.run(step(100), out=tmp_path / "one", **SMALL)
    with pytest.raises(InputError, match="is a run folder; several models need a folder above theirs"):
        run_many([step(100), step(200)], out=tmp_path / "one", **SMALL)
    with pytest.raises(InputError, match="cannot write to"):
        run_many([step(100), step(200)], out=tmp_path / "step100.json", **SMALL)


# The command


def test_the_command_prints_the_comparison_and_where_everything_is(cli, step, tmp_path):
    models = [step(n) for n in (100, 200, 300)]
    command = ("run", *models, "--out", "all", "--limit", "12", "--bootstrap", "99")
    done = cli(*command)
    assert done.rc == 0
    assert done.stderr.splitlines() == [f"{model} ({i} of 3)" for i, model in enumerate(models, 1)]
    printed = cli("compare", *(f"all/step{n}" for n in (100, 200, 300)), "--bootstrap", "99").stdout
    assert done.stdout.startswith(printed)
    assert done.stdout.removeprefix(printed).splitlines() == [
        "a page to look at: all/report.html",
        *(f"written to all/step{n}/results.json" for n in (100, 200, 300)),
        "written to all/comparison.json",
    ]
    assert printed.count("minus the baseline") == 2 and printed.count("male_leaning_rate") == 2
    for page in ("report.html", "step100/report.html", "step300/report.html"):
        assert (tmp_path / "all" / page).exists()
    done = cli(*command, "--json", "--quiet", "--no-report")
    assert (done.rc, done.stderr) == (0, "")
    assert done.stdout == (tmp_path / "all" / "comparison.json").read_text(encoding="utf-8")
    assert not list((tmp_path / "all").rglob("report.html"))


def test_the_first_failure_s_code_is_the_command_s(cli, step, script, tmp_path):
    unsupported = script("other.json", Embed={"x": [1]})
    done = cli("run", unsupported, step(100), step(None), step(200), "--out", "all", "--limit", "5", "--quiet")
    assert done.rc == 2
    assert [line.split(": ")[1].rpartition("/")[2] for line in done.stderr.splitlines()] == [
        "other.json",
        "stepNone.json",
    ]
    assert "Traceback" not in done.stderr and done.stdout.count("minus the baseline") == 1
    done = cli("run", step(None), unsupported, "--out", "none", "--limit", "5", "--quiet", "--json")
    assert (done.rc, done.stdout, done.stderr.count("\n")) == (3, "", 2)
    assert "Traceback" in cli("run", step(None), unsupported, "--out", "none", "--debug").stderr


def test_nothing_to_compare_is_a_line(cli, step, script, tmp_path):
    models = (step(100), script("masked.json", Cloze={}, default=-2))
    done = cli("run", *models, "--out", "all", "--limit", "5", "--quiet")
    assert done.rc == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("evenhand: nothing can be compared: cooccurrence cannot be compared: ")
    assert "baseline:" not in done.stdout and "written to all/step100/results.json" in done.stdout
    done = cli("run", *models, "--out", "all", "--limit", "5", "--quiet", "--json")
    assert json.loads(done.stdout)["tasks"] == {}


def test_control_c_stops_everything_and_the_same_command_goes_on(step, tmp_path, stalling, cli):
    models = [step(n) for n in (100, 200, 300)]
    command = ("run", *models, "--out", "all", "--limit", "40", "--bootstrap", "0", "--quiet")
    process = stalling(*command, stop=60, log=tmp_path / "asked")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert stderr == "evenhand: interrupted; what was answered is kept, the same command goes on from there\n"
    finished = [path.parent.name for path in (tmp_path / "all").glob("*/results.json")]
    assert finished == ["step100"]
    done = cli(*command)
    assert (done.rc, done.stderr) == (0, "")
    counts = {
        path.parent.name: json.loads(path.read_bytes())["requests"]["cooccurrence"]["already_answered"]
        for path in (tmp_path / "all").glob("*/run.json")
    }
    assert counts == {"step100": 40, "step200": 20, "step300": 0}


def test_three_runs_stand_in_the_tables(step, tmp_path):
    from rich.console import Console

    found = run_many([step(n) for n in (100, 200, 300)], out=tmp_path / "all", **SMALL)
    console = Console(record=True, width=160)
    console.print(tables(found.comparison))
    said = console.export_text()
    for name in ("step200", "step300"):
        assert f"{name} (scripted:{name}) minus the baseline" in said
