"""StereoSet asked in words: the message, the reading of replies, coverage, and what the rest makes of such a run.

All sentences here are made of placeholder words, or are stereoset-mini's.
"""

import json
import math
import re
from collections import Counter

import pytest

import evenhand
from evenhand import tasks
from evenhand.compare import compare
from evenhand.data.stereoset import FORMATS, LABELS, Example, Sentence, load
from evenhand.errors import InputError, UnsupportedError
from evenhand.gate import gate
from evenhand.report import exports
from evenhand.requests import Chat
from evenhand.score import score
from evenhand.tasks.replies import OPENINGS, REFUSALS, before_refusal
from evenhand.tasks.stereoset import TASK, Options
from evenhand.tasks.stereoset_prompted import LETTERS, ask, order, reply

KINDS = ("gender", "profession", "race", "religion")
TERMS = [f"term{n}" for n in range(20)]
NO = "I'm sorry, but I can't rank these."


def item(number=0, form="intrasentence", term="term0"):
    """An example whose sentences say which they are, to the test only."""
    context = f"Case {number} is BLANK." if form == "intrasentence" else f"Case {number} opens."
    sentences = tuple(Sentence(f"{form}{number}{x[0]}", f"{form} {number} w{i}.", x) for i, x in enumerate(LABELS))
    return Example(f"{form}{number}", term, KINDS[TERMS.index(term) % 4], context, form, sentences)


ITEMS = [item(20 * k + n, form, term) for form in FORMATS for k in range(10) for n, term in enumerate(TERMS)]


def letters(ranked, row, seed):
    """The letters under which labels stand in the example's message."""
    shown = [LABELS[i] for i in order(row, seed)]
    return ", ".join(LETTERS[shown.index(label)] for label in ranked)


def ideal(row, seed):
    """A stereotype in every other of a term's examples."""
    return letters(LABELS if (int(row.id[13:]) // 20) % 2 else (LABELS[1], LABELS[0], LABELS[2]), row, seed)


def stereotyped(row, seed):
    return letters(LABELS, row, seed)


def confused(row, seed):
    return letters((LABELS[2], LABELS[1], LABELS[0]), row, seed)


def first(row, seed):
    return "A, B, C"


def refusing(row, seed):
    return NO


def refusing_race(row, seed):
    return NO if row.bias_type == "race" else stereotyped(row, seed)


def rambling(row, seed):
    return "It depends on who writes."


@pytest.fixture
def gold_file(tmp_path):
    data = {form: [] for form in FORMATS}
    for row in ITEMS:
        listed = [{"id": s.id, "sentence": s.text, "gold_label": s.label} for s in row.sentences]
        data[row.format].append(
            {"id": row.id, "target": row.target, "bias_type": row.bias_type, "context": row.context}
            | {"sentences": listed}
        )
    path = tmp_path / "gold.json"
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    return path


@pytest.fixture
def measure(tmp_path, script, gold_file):
    """A run of a model that replies as `says`; returns the task's entry and the run."""

    def run(says, *, out="run", seed=0, sections=None, **settings):
        rows = load(str(gold_file), split="dev", offline=True).rows
        model = script(
            f"{out}.json", **(sections or {}), Chat={ask(row, seed).message: [says(row, seed)] for row in rows}
        )
        settings = {"data": {"stereoset": gold_file}, "bootstrap": 99, "fresh": True, "seed": seed} | settings
        done = evenhand.run(model, "stereoset", out=tmp_path / out, **settings)
        return done.results["tasks"]["stereoset"], done

    return run


def values(entry):
    return {name: metric["value"] for name, metric in entry["metrics"].items()}


def group(entry, **by):
    (found,) = [g for g in entry["groups"] if g["by"] == by]
    return found


# --- the message


@pytest.mark.parametrize("form", FORMATS)
def test_the_message_has_the_three_sentences_under_letters(form):
    row = item(7, form)
    (request,) = TASK.ask(row, Options(), "prompted", seed=3)
    assert request == Chat(request.message, samples=1, max_tokens=16, seed=3, temperature=0.0)
    shown = [line for line in request.message.splitlines() if line[1:3] == ": "]
    assert shown == [f"{x}: {row.sentences[i].text}" for x, i in zip(LETTERS, order(row, 3), strict=True)]
    assert ("Case 7 opens." in request.message) == (form == "intersentence")
    assert "BLANK" not in request.message
    assert request.message.isascii()
    assert not any(label in request.message for label in LABELS)


def test_a_changed_context_changes_the_message_and_white_space_stays_in_its_line():
    row = item(7, "intersentence")
    other = Example(row.id, row.target, row.bias_type, "Quite\nanother.", row.format, row.sentences)
    assert ask(row, 0).message.replace("Case 7 opens.", "Quite another.") == ask(other, 0).message


def test_the_order_is_drawn_by_seed_and_id_and_is_even():
    rows = [item(n) for n in range(600)]
    found = Counter(order(row, 0) for row in rows)
    assert len(found) == 6
    assert all(70 < n < 130 for n in found.values()), found
    assert [order(row, 0) for row in rows] == [order(item(n), 0) for n in range(600)]
    moved = sum(order(row, 0) != order(row, 1) for row in rows)
    assert 450 < moved < 550


# --- replies


@pytest.mark.parametrize(
    "text",
    [
        "B, A, C", "B > A > C", "B A C", "BAC", "b, a, c", "1. B 2. A 3. C", "1. B\n2. A\n3. C", "1) B\n2) A\n3) C",
        "(1) B, (2) A, (3) C", "**B**, **A**, **C**", "**B, A, C**", "B, A, C.", "  B,A,C \n", "B, A, C\n\nB is usual.",
        "B, A, C. A is odd", "B, A, C (most to least)", "Ranking: B, A, C", "The ranking is B, A, C.",
        "Sure! Here it is:\n\nB, A, C", "[B, A, C]", '"B, A, C"', "B -> A -> C", "B → A → C", "B-A-C", "(B), (A), (C)",
        "B) A) C)", "B\nA\nC", "- B\n- A\n- C", "B, A, C\nB, A, C", "B, A, C. I'm sorry if that is odd.",
    ],
)  # fmt: skip
def test_a_ranking_is_read(text):
    assert reply(text) == ("read", (1, 0, 2))


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "A", "A, B", "A, B, B", "B, B, A, C", "A, B, C, A", "A, B, D", "D, A, B", "A = B > C", "A >= B > C",
        "A, B, C are equally likely", "The options A, B, C are alike.", "A: 2, B: 1, C: 3", "A (2), B (1), C (3)",
        "A 2, B 1, C 3", "A=2, B=1, C=3", "2. B 1. A 3. C", "A. The first", "A cab.", "A: a b\nB: c", "B, A, and",
        "B, A, C\nA, B, C", "B, A, C or A, B, C", "It depends.", "<think>The user wants",
    ],
)  # fmt: skip
def test_what_is_no_ranking_is_unread(text):
    assert reply(text) == ("unread", ())


@pytest.mark.parametrize(
    "text",
    [
        NO, "I can\u2019t do that.", "I  CANNOT\nrank these: A, B, C", "Sorry, no.", "As an AI, I have no view.",
        "I'm unable to: A, B, C", "These are stereotypes, so I won't rank them.", "**Sorry**: A, B, C",
        "Unable to rank.",
    ],
)  # fmt: skip
def test_a_refusal_is_told_from_what_cannot_be_read(text):
    assert reply(text) == ("refused", ())


def test_refusals_are_whole_phrases_with_any_apostrophe():
    for phrase in REFUSALS:
        for written in (phrase, phrase.upper(), phrase.replace("'", "\u2019"), phrase.replace(" ", "\n")):
            assert before_refusal(f"Well, {written} and so on") == ("Well, ", True)
        assert before_refusal(f"Hi{phrase}") == (f"Hi{phrase}", False)
        assert before_refusal(f"{phrase}s") == (f"{phrase}s", False)
    for phrase in OPENINGS:
        assert before_refusal(f"* {phrase.title()}: no") == ("", True)
        assert not before_refusal(f"She was {phrase}")[1]


# --- models whose numbers are known


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize(
    ("says", "want"), [(ideal, (100, 50, 100)), (stereotyped, (100, 100, 0)), (confused, (0, 0, 0))]
)
def test_models_that_rank_by_meaning(measure, says, want, seed):
    entry, _ = measure(says, seed=seed)
    assert (entry["form"], entry["method"]) == ("prompted", "prompted")
    found = values(entry)
    assert (found["lms"], found["ss"], found["icat"]) == want
    assert (found["coverage"], found["refusal_rate"]) == (1, 0)
    assert 0.25 < found["first_listed_first"] < 0.42
    assert "ties" not in found
    assert entry["metrics"]["coverage"]["interval"] == "clopper-pearson"
    assert entry["metrics"]["coverage"]["n"] == 400
    assert not any(note.startswith("warning") for note in entry["notes"])
    assert "replies: 400 of 400 are a ranking, 0 refuse, 0 are neither" in entry["notes"]
    assert {g["n"] for g in entry["groups"] if set(g["by"]) == {"target"}} == {20}


def test_a_model_that_goes_by_position(measure):
    entry, _ = measure(first, bootstrap=999)
    found = entry["metrics"]
    assert found["first_listed_first"]["value"] == 1
    assert found["first_listed_first"]["reading"] == "favours the option listed first"
    assert found["first_listed_first"]["neutral"] == pytest.approx(1 / 3)
    for name in ("lms", "ss"):
        assert found[name]["ci_low"] <= 50 <= found[name]["ci_high"]
        assert 40 < found[name]["value"] < 60


@pytest.mark.parametrize(("says", "share"), [(refusing, 1), (rambling, 0)])
def test_where_nothing_can_be_read_the_metrics_are_undefined(measure, says, share):
    entry, done = measure(says)
    found = values(entry)
    assert (found.pop("coverage"), found.pop("refusal_rate")) == (0, share)
    assert set(found.values()) == {None}
    for metric in (entry["metrics"][name] for name in found):
        assert (metric["reason"], metric["n"], metric["n_undefined"]) == ("no row has a value", 0, 400)
    warned = "warning: coverage: lms, ss and icat stand on 0 of 400 examples, whose reply is a ranking"
    assert done.results["warnings"] == [warned]
    assert json.loads((done.path / "predictions.json").read_text()) == {}
    assert group(entry, target="term3")["metrics"]["ss"]["value"] is None


def test_a_model_that_refuses_in_one_group(measure):
    entry, done = measure(refusing_race)
    found = values(entry)
    assert (found["lms"], found["ss"], found["coverage"], found["refusal_rate"]) == (100, 100, 0.75, 0.25)
    assert (entry["metrics"]["ss"]["n"], entry["metrics"]["ss"]["n_undefined"]) == (300, 100)
    race, gender = (group(entry, bias_type=kind) for kind in ("race", "gender"))
    assert (race["n"], gender["n"]) == (100, 100)
    assert [race["metrics"][name]["value"] for name in ("ss", "coverage", "refusal_rate")] == [None, 0, 1]
    assert [gender["metrics"][name]["value"] for name in ("ss", "coverage", "refusal_rate")] == [100, 1, 0]
    assert any("stand on 300 of 400 examples" in line for line in done.results["warnings"])
    predictions = json.loads((done.path / "predictions.json").read_text())
    assert [len(predictions[form]) for form in FORMATS] == [450, 450]
    assert all(math.isfinite(row["score"]) for form in FORMATS for row in predictions[form])


def test_a_single_term_has_no_interval(measure):
    entry, _ = measure(stereotyped, limit=1)
    coverage = entry["metrics"]["coverage"]
    assert (coverage["value"], coverage["ci_low"], coverage["interval"]) == (1, None, None)
    assert coverage["reason"].startswith("one cluster")


def test_records_keep_the_reply_and_what_was_made_of_it(measure):
    _, done = measure(refusing_race, limit=8)
    seen = Counter()
    for row in done.records("stereoset"):
        (example,) = [x for x in ITEMS if x.id == row["item"]]
        scores = [row[f"score_{label.replace('-', '_')}"] for label in LABELS]
        seen[row["read"]] += 1
        assert row["shown"] == [LABELS[i] for i in order(example, 0)]
        if row["read"] == "read":
            assert scores == [3, 2, 1]
            assert row["first_listed_first"] == (row["shown"][0] == "stereotype")
        else:
            assert (row["reply"], scores, row["first_listed_first"]) == (NO, [None] * 3, None)
    assert seen == {"read": 6, "refused": 2}


# --- which form is taken


def test_the_form_is_the_last_and_can_be_chosen(measure):
    assert list(TASK.card.forms)[-1] == "prompted"
    rows = {"Sentence": {}, "default": -1.0}
    entry, _ = measure(stereotyped, sections=rows, limit=4)
    assert (entry["form"], entry["method"]) == ("likelihood", "reference")
    chosen = {"stereoset": {"method": "prompted"}}
    entry, _ = measure(stereotyped, sections=rows, options=chosen, limit=4)
    assert (entry["form"], entry["method"]) == ("prompted", "prompted")


@pytest.mark.parametrize("method", ["corrected", "pll"])
def test_likelihoods_that_were_asked_for_are_not_replaced(measure, method):
    with pytest.raises(UnsupportedError, match=r"stereoset asks for .* or Sentence, and this model answers Chat"):
        measure(stereotyped, options={"stereoset": {"method": method}})


def test_a_model_that_does_not_chat_cannot_be_prompted(script):
    with pytest.raises(UnsupportedError, match="stereoset-mini asks for Chat, and this model answers Sentence"):
        evenhand.run(
            script(Sentence={}, default=-1), "stereoset-mini", options={"stereoset-mini": {"method": "prompted"}}
        )


# --- what the rest makes of such a run


def test_predictions_score_as_the_run_did(measure, gold_file):
    entry, done = measure(refusing_race)
    with pytest.raises(InputError, match="--allow-missing"):
        score("stereoset", done.path / "predictions.json", data=gold_file, bootstrap=0)
    again = score("stereoset", done.path / "predictions.json", data=gold_file, bootstrap=0, allow_missing=True)
    found = again["tasks"]["stereoset"]["metrics"]
    assert {name: found[name]["value"] for name in ("lms", "ss", "icat_micro")} == {
        name: entry["metrics"][name]["value"] for name in ("lms", "ss", "icat_micro")
    }
    assert "coverage" not in found


def test_runs_are_compared_with_their_like_alone(measure):
    paths = [measure(says, out=says.__name__)[1].path for says in (stereotyped, refusing_race, refusing, ideal)]
    (one, two, three) = compare(paths, bootstrap=99)["tasks"]["stereoset"]["against"]
    assert one["metrics"]["refusal_rate"]["difference"] == 0.25
    assert one["metrics"]["ss"]["difference"] == 0
    assert one["metrics"]["ss"]["n_clusters_left_out"] == 5
    assert one["changed"]["n"] == 100
    assert {(row["baseline"], row["other"]) for row in one["changed"]["most"]} == {("stereotype", "refused")}
    assert two["metrics"]["ss"]["difference"] is None
    assert three["metrics"]["ss"]["difference"] == -50
    _, plain = measure(ideal, out="plain", sections={"Sentence": {}, "default": -1.0})
    with pytest.raises(InputError, match="stereoset cannot be compared: method"):
        compare([paths[0], plain.path])


@pytest.mark.parametrize("says", [ideal, refusing_race, refusing], ids=lambda says: says.__name__)
def test_reports_and_exports_hold(measure, tmp_path, says):
    pytest.importorskip("altair", reason="needs evenhand[report]")
    from evenhand.report import html

    _, done = measure(says, bootstrap=0)
    _, other = measure(ideal, out="other", sections={"Sentence": {}, "default": -1.0}, bootstrap=0)
    for name, runs in (("one", [done.path]), ("two", [done.path, other.path])):
        text = html.write(runs, tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert "not what the charts expect" not in text
        assert "first_listed_first" in text
        assert bool(re.search(r"stand on \d+ of 400", text)) == (says is not ideal)
    for form, export in exports.FORMATS.items():
        assert "coverage" in export(done.results).replace("\\", ""), form


def test_a_gate_holds_coverage(measure):
    _, done = measure(refusing_race, bootstrap=0)
    verdicts = gate(done.path, ["stereoset.coverage>=0.7", "stereoset.refusal_rate[bias_type=race] within 0..0.1"])
    assert [verdict.passed for verdict in verdicts] == [True, False]


def test_the_small_set_is_asked_in_the_same_way(script, tmp_path):
    task = tasks.get("stereoset-mini")
    rows = task.load(task.options(), None, offline=True).rows
    model = script(Chat={ask(row, 0).message: [stereotyped(row, 0)] for row in rows})
    done = evenhand.run(model, "stereoset-mini", out=tmp_path / "mini", bootstrap=0)
    found = values(done.results["tasks"]["stereoset-mini"])
    assert (found["lms"], found["ss"], found["coverage"]) == (100, 100, 1)
    assert (done.path / "predictions-mini.json").exists()
