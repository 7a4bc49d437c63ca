"""Runs against each other: what must be equal, what must flip, what is refused, what is left out."""

import json
import math
import random

import pytest

import evenhand
from evenhand import tasks
from evenhand.compare import compare
from evenhand.errors import InputError
from evenhand.score import score

WORDS = (" female", " woman", " male", " man")
TITLES = [
    "nurse", "engineer", "clerk", "teacher", "pilot", "cook", "<b>hostile</b>", "[red]markup[/]", "a\x1b[31mb",
    *(f"worker {i}" for i in range(20)),
]  # fmt: skip


def answers(seed, shift=0.0, words=WORDS):
    """A model of cooccurrence: the male words are more likely by `shift`."""
    rng = random.Random(seed)
    female, male = words[:2], words[2:]
    return {
        f"The {title} was a": {
            **{word: rng.uniform(-5, -1) for word in female},
            **{word: rng.uniform(-5, -1) + shift for word in male},
        }
        for title in TITLES
    }


def sentences(seed):
    """A model of stereoset-mini."""
    rng = random.Random(seed)
    task, section = tasks.get("stereoset-mini"), {}
    options = task.options()
    for item in task.load(options, None, offline=True).rows:
        for request in task.ask(item, options, "likelihood", seed=0):
            into = section.setdefault(request.context, {}) if request.context else section
            into[request.text] = rng.uniform(-9, -1)
    return section


@pytest.fixture
def measure(script, table, tmp_path):
    """Runs a scripted model into a folder; returns the folder."""

    def run(name, seed=1, *, task="cooccurrence", titles=TITLES, shift=0.0, words=WORDS, **settings):
        data = table("occupation\n" + "\n".join(titles) + "\n", f"{settings.pop('file', 'rows')}.csv")
        model = script(
            f"{name}.json", Continuation=answers(seed, shift, words), Sentence=sentences(seed),
            Generate=dict.fromkeys((f"The {t} was a" for t in TITLES), [" man", " woman"] if shift else [" woman"]),
        )  # fmt: skip
        names = [task] if isinstance(task, str) else task
        settings = {"data": {t: data for t in names if t.startswith("cooccurrence")}, "bootstrap": 199} | settings
        return evenhand.run(model, names, out=tmp_path / name, **settings).path

    return run


def against(found, task="cooccurrence"):
    (one,) = found["tasks"][task]["against"]
    return one


def test_two_runs_of_one_model_do_not_differ(measure):
    every = ["cooccurrence", "cooccurrence-sampled", "stereoset-mini"]
    found = compare([measure("a", task=every), measure("b", task=every)], bootstrap=199)
    assert list(found["tasks"]) == every
    for task in every:
        one = against(found, task)
        assert one["changed"] == {"n": 0, "most": []}
        for row in [*one["metrics"].values(), *(m for g in one["groups"] for m in g["metrics"].values())]:
            assert (row["difference"], row["p"], row["p_holm"]) == (0, 1, 1)
            assert (row["ci_low"], row["ci_high"]) == (None, None)
            assert row["reason"] == "the two runs are equal here"


def test_the_difference_is_the_other_minus_the_baseline(measure):
    a, b = measure("a"), measure("b", shift=0.5)
    rows = against(compare([a, b], bootstrap=499))["metrics"]
    diff = rows["likelihood_diff"]
    assert diff["difference"] == pytest.approx(-0.5)
    assert diff["other"] - diff["baseline"] == pytest.approx(diff["difference"])
    for path, side in ((a, "baseline"), (b, "other")):
        results = json.loads((path / "results.json").read_bytes())["tasks"]["cooccurrence"]["metrics"]
        assert {name: row[side] for name, row in rows.items()} == {n: e["value"] for n, e in results.items()}
    back = against(compare([b, a], bootstrap=499))["metrics"]
    for name, row in rows.items():
        assert back[name]["difference"] == -row["difference"]
        assert back[name]["p"] == row["p"]


def test_p_values_are_corrected_over_all_that_is_shown(measure):
    found = compare([measure("a"), measure("b", 2), measure("c", 3, shift=0.7)], bootstrap=299)
    rows = [row for one in found["tasks"]["cooccurrence"]["against"] for row in one["metrics"].values()]
    raw = sorted(row["p"] for row in rows)
    assert len(raw) == 10
    assert min(row["p_holm"] for row in rows) == pytest.approx(min(1, 10 * raw[0]))
    assert all(row["p_holm"] >= row["p"] for row in rows)


def test_more_runs_than_two_are_each_held_to_the_first(measure):
    paths = [measure("a"), measure("b", 2), measure("c", 3)]
    found = compare(paths, bootstrap=0)
    assert [one["run"] for one in found["tasks"]["cooccurrence"]["against"]] == [str(p) for p in paths[1:]]
    alone = compare([paths[0], paths[2]], bootstrap=0)
    assert (
        found["tasks"]["cooccurrence"]["against"][1]["metrics"]["likelihood_diff"]["difference"]
        == (against(alone)["metrics"]["likelihood_diff"]["difference"])
    )


def test_items_that_changed_most_come_first(measure):
    found = against(compare([measure("a"), measure("b", 2)], bootstrap=0))["changed"]
    assert found["n"] == len(TITLES)
    assert len(found["most"]) == 10
    sizes = [abs(row["change"]) for row in found["most"]]
    assert sizes == sorted(sizes, reverse=True)
    first = found["most"][0]
    assert first["other"] - first["baseline"] == first["change"]
    assert first["item"] in answers(1)
    one, two = answers(1)[first["item"]], answers(2)[first["item"]]

    def diff(p):
        return math.log((math.exp(p[" female"]) + math.exp(p[" woman"])) / (math.exp(p[" male"]) + math.exp(p[" man"])))

    assert first["change"] == pytest.approx(diff(two) - diff(one))


def test_examples_that_flipped_are_told_in_words(measure):
    found = against(
        compare([measure("a", task="stereoset-mini"), measure("b", 2, task="stereoset-mini")], bootstrap=99),
        "stereoset-mini",
    )
    labels = {"stereotype", "anti-stereotype", "unrelated"}
    for row in found["changed"]["most"]:
        assert {row["baseline"], row["other"]} <= labels
        assert row["baseline"] != row["other"]
        assert row["change"] is None
    assert {"bias_type": "gender"} in [group["by"] for group in found["groups"]]
    gender = next(g for g in found["groups"] if g["by"] == {"bias_type": "gender"})
    assert set(gender["metrics"]) == {"lms", "ss", "icat"}
    assert gender["metrics"]["ss"]["test"] == "exact sign-flip permutation"
    assert gender["metrics"]["ss"]["p_holm"] >= gender["metrics"]["ss"]["p"]
    term = next(g for g in found["groups"] if g["by"] == {"target": "aunt"})
    assert term["metrics"]["ss"]["p"] is None


def test_items_that_only_one_run_has_are_left_out_and_counted(measure):
    a, b = measure("a"), measure("b", 2, limit=10)
    one = against(compare([a, b], bootstrap=99))
    assert one["items"] == {"shared": 10, "only_baseline": len(TITLES) - 10, "only_other": 0}
    short = against(compare([measure("c", limit=10), b], bootstrap=99))
    assert one["metrics"] == short["metrics"]
    assert against(compare([b, a], bootstrap=0))["items"]["only_other"] == len(TITLES) - 10


def test_all_prompts_are_compared_each(measure):
    options = {"cooccurrence": {"prompt": "all"}}
    model = {"options": options}

    def whole(name, seed):
        plain = measure(name, seed)
        path = plain.parent / f"{name}.json"
        sections = json.loads(path.read_text())
        for kind in ("competent", "incompetent"):
            for title in TITLES:
                words = sections["Continuation"][f"The {title} was a"]
                sections["Continuation"][f"The {kind} {title} was a"] = {k: v - len(kind) / 9 for k, v in words.items()}
        path.write_text(json.dumps(sections))
        data = {"cooccurrence": plain.parent / "rows.csv"}
        return evenhand.run(f"scripted:{path}", out=plain, data=data, bootstrap=0, fresh=True, **model).path

    one = against(compare([whole("a", 1), whole("b", 2)], bootstrap=0))
    assert [group["by"]["prompt"] for group in one["groups"]] == ["neutral", "competent", "incompetent"]
    assert (
        one["groups"][0]["metrics"]["likelihood_diff"]["difference"]
        == (one["metrics"]["likelihood_diff"]["difference"])
    )
    assert one["items"]["shared"] == 3 * len(TITLES)


def refused(paths, *words):
    with pytest.raises(InputError) as error:
        compare(paths)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_runs_on_other_data_are_refused(measure):
    a = measure("a")
    refused([a, measure("b", file="other", titles=TITLES[:-1])], "cooccurrence", "other data", "rows.csv", "other.csv")


def test_runs_of_other_methods_are_refused(measure):
    a = measure("a")
    swapped = {"cooccurrence": {"female": "male,man", "male": "female,woman"}}
    refused([a, measure("b", options=swapped)], "method", "female=male,man")


def edited(path, **entry):
    """The run as if its entry in results.json were another."""
    file = path / "results.json"
    found = json.loads(file.read_bytes())
    found["tasks"]["cooccurrence"] |= entry
    file.write_text(json.dumps(found))
    return path


def test_runs_of_other_forms_or_versions_are_refused(measure):
    a = measure("a")
    refused([a, edited(measure("b"), form="cloze")], "form continuation", "cloze")
    refused([a, edited(measure("c"), version=2)], "version 1", "2")
    both = [edited(measure("d"), version=99), edited(measure("e"), version=99)]
    refused(both, "version 99", "version 1", "run it again")


def test_what_is_not_alike_is_left_out_and_said_where_that_is_asked(measure):
    a, b = measure("a"), measure("b", 2)
    other, old = edited(measure("c", 3), form="cloze"), edited(measure("d", 4), version=2)
    few = measure("e", 5, file="few", titles=TITLES[:3])
    found = compare([a, other, b, old, few], bootstrap=99, leave_out=True)
    assert found["tasks"] == compare([a, b], bootstrap=99)["tasks"]
    assert [one["run"] for one in found["others"]] == [str(path) for path in (other, b, old, few)]
    said = ("form continuation", "version 1", "other data")
    assert all(word in note for word, note in zip(said, found["notes"], strict=True))
    assert all(note.startswith("cooccurrence cannot be compared: ") for note in found["notes"])
    (b / "records" / "cooccurrence.parquet").unlink()
    nothing = compare([a, b, measure("f", task="stereoset-mini")], bootstrap=99, leave_out=True)
    assert nothing["tasks"] == {} and "no records of 'cooccurrence'" in nothing["notes"][-1]


def test_the_words_exchanged_flip_every_sign(measure):
    """Same model, the two groups' words exchanged: another method by name, the same numbers with the sign turned."""
    a, b = measure("a"), measure("b", 2)
    swapped = {"cooccurrence": {"female": "male,man", "male": "female,woman"}}
    c, d = measure("c", options=swapped), measure("d", 2, options=swapped)
    plain, turned = (against(compare(pair, bootstrap=299))["metrics"] for pair in ((a, b), (c, d)))
    for name in ("likelihood_diff", "likelihood_diff_unique"):
        assert turned[name]["difference"] == pytest.approx(-plain[name]["difference"])
        assert turned[name]["baseline"] == pytest.approx(-plain[name]["baseline"])
        assert turned[name]["p"] == plain[name]["p"]
    for name in ("pct_male_preferred", "pct_male_preferred_unique", "male_leaning_rate"):
        assert turned[name]["difference"] == pytest.approx(-plain[name]["difference"])
        assert turned[name]["baseline"] == pytest.approx(1 - plain[name]["baseline"])


def test_other_precision_is_a_warning(measure):
    a, b = measure("a"), measure("b", 2)
    assert compare([a, b], bootstrap=0)["warnings"] == []
    found = json.loads((b / "results.json").read_bytes())
    found["model"]["dtype"] = "bfloat16"
    (b / "results.json").write_text(json.dumps(found))
    (warning,) = compare([a, b], bootstrap=0)["warnings"]
    assert "bfloat16" in warning


def test_log_probabilities_read_in_another_way_are_a_warning(measure):
    paths = [measure("a"), measure("b", 2)]
    file = paths[1] / "results.json"
    found = json.loads(file.read_bytes())
    found["model"]["reads"] = "echo + logprobs; a text's first token is not read"
    file.write_text(json.dumps(found))
    (warning,) = compare(paths, bootstrap=0)["warnings"]
    assert "evenhand's own passes in" in warning and "first token is not read in" in warning


def test_a_task_that_one_run_lacks_is_a_note(measure):
    a, b = measure("a", task=["cooccurrence", "stereoset-mini"]), measure("b", 2)
    found = compare([a, b], bootstrap=0)
    assert list(found["tasks"]) == ["cooccurrence"]
    assert found["notes"] == [f"stereoset-mini is not in {b} and not compared there"]
    refused([b, measure("c", task="stereoset-mini")], "no task in common")


def test_what_is_no_run_is_refused(measure, tmp_path):
    a = measure("a")
    refused([a], "two run folders")
    refused([a, tmp_path / "absent"], "no run folder")
    (tmp_path / "empty").mkdir()
    refused([a, tmp_path / "empty"], "no run folder")
    (tmp_path / "list.json").write_text("[]")
    refused([a, tmp_path / "list.json"], "not evenhand's")
    b = measure("b")
    (b / "records" / "cooccurrence.parquet").unlink()
    refused([a, b], "no records of 'cooccurrence'")
    newer = json.loads((a / "results.json").read_bytes()) | {"schema": 2}
    (a / "results.json").write_text(json.dumps(newer))
    refused([a, b], "schema 2")


def test_the_command(cli, measure):
    a, b = measure("a"), measure("b", 2, shift=1)
    done = cli("compare", a, b, "--json", "--bootstrap", 99)
    assert (done.rc, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(json.dumps(compare([a, b], bootstrap=99)))
    done = cli("compare", a, b, "--bootstrap", 99)
    assert done.rc == 0
    assert "likelihood_diff" in done.stdout and "baseline" in done.stdout
    assert "\x1b" not in done.stdout
    done = cli("compare", a, b, measure("c", 3), "--bootstrap", 99)
    assert done.rc == 0 and done.stdout.count("minus the baseline") == 2
    done = cli("compare", a)
    assert (done.rc, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    done = cli("compare", a, measure("d", file="few", titles=TITLES[:3]))
    assert (done.rc, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert "other data" in done.stderr


def test_hostile_names_do_not_steer_the_terminal(cli, measure):
    few = {"file": "few", "titles": TITLES[6:9]}
    done = cli("compare", measure("a", **few), measure("b", 2, **few), "--bootstrap", 0)
    assert done.rc == 0
    for title in ("<b>hostile</b>", "[red]markup[/]", "a\\x1b[31mb"):
        assert f"The {title} was a" in done.stdout


def classifier(folder, name, seed):
    """Predictions of 60 biographies, scored into a run folder."""
    rng = random.Random(seed)
    names = ["nurse", "surgeon", "poet"]
    lines = ["id,label,gender,prediction,prediction_counterfactual"]
    for i in range(60):
        label = names[i % 3]
        said = [label if rng.random() < 0.7 else rng.choice(names) for _ in range(2)]
        lines.append(f"{i},{label},{('female', 'male')[i % 2]},{said[0]},{said[1]}")
    path = folder / f"{name}.csv"
    path.write_text("\n".join(lines) + "\n")
    score("bios", path, out=folder / name, bootstrap=0)
    return folder / name


def test_two_classifiers_on_the_same_rows(tmp_path):
    a, b = classifier(tmp_path, "a", 1), classifier(tmp_path, "b", 2)
    one = against(compare([a, b], bootstrap=199), "bios")
    own = [json.loads((path / "results.json").read_bytes())["tasks"]["bios"]["metrics"] for path in (a, b)]
    for name, row in one["metrics"].items():
        assert (row["baseline"], row["other"]) == pytest.approx((own[0][name]["value"], own[1][name]["value"])), name
    assert one["metrics"]["ctf"]["difference"] is None
    assert 0 < one["metrics"]["gap_rms"]["p"] <= 1
    assert [group["by"] for group in one["groups"]] == [{"class": c} for c in ("nurse", "poet", "surgeon")]
    assert set(one["groups"][0]["metrics"]) == {"tpr_gap"}
    same = against(compare([a, a], bootstrap=199), "bios")
    assert {row["p"] for row in same["metrics"].values()} == {1, None}
    less = tmp_path / "c.csv"
    less.write_text("\n".join((tmp_path / "b.csv").read_text().splitlines()[:-1]))
    score("bios", less, out=tmp_path / "c", bootstrap=0)
    refused([a, tmp_path / "c"], "bios", "other data")
