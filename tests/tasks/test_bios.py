"""bios end to end: what is asked, what is trained, what comes out, and that no text does."""

import json
import re
import time
import zlib
from collections import Counter
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest

import evenhand
from evenhand import tasks
from evenhand.data import bios_synthetic
from evenhand.data.bios_figures import OCCUPATIONS
from evenhand.errors import InputError, ModelError
from evenhand.metrics.intervals import Resampling
from evenhand.requests import Embed, Vector
from evenhand.score import score
from evenhand.spec import checked
from evenhand.tasks.bios_probe import TRAININGS
from evenhand.tasks.bios_summary import METRICS

pytest.importorskip("sklearn")
BIOS, SYNTHETIC = tasks.get("bios"), tasks.get("bios-synthetic")
SIZE = 48
WORDS = np.random.default_rng(0).standard_normal((4096, SIZE)).astype(np.float32)


@cache
def vector(text):
    """A text's words, hashed to random directions and added up: an encoder that sees every word."""
    found = sum((WORDS[zlib.crc32(word.encode()) % 4096] for word in re.findall(r"\w+", text.lower())), np.zeros(SIZE))
    return Vector([float(x) for x in found / max(1, len(text.split()))])


def measured(task=SYNTHETIC, source=None, how=None, **options):
    """The outcome and records of a task on the hashing encoder."""
    own = checked(task.options, options, where="")
    data = task.load(own, source, offline=True)
    answers = [[vector(request.text) for request in task.ask(item, own, "embed", seed=0)] for item in data.rows]
    records = task.read_together(data.rows, own, "embed", answers, seed=0)
    return task.summarise(records, own, how or Resampling(300)), records, data


@pytest.fixture(scope="module")
def by_strength():
    """Outcomes over four strengths of gendered wording."""
    return {strength: measured(strength=strength, size=5600)[0] for strength in (0, 0.33, 0.67, 1)}


@pytest.fixture(scope="module")
def compared():
    """All trainings on fully gendered wording, with records."""
    return measured(train="all")


def by(outcome, **wanted):
    return next(group for group in outcome.groups if group.by == wanted)


# --- known directions


def test_with_nothing_planted_no_gap_is_found(by_strength):
    found = by_strength[0]
    # Gaps of false positive rates are not among them: women's rows are of other occupations than men's.
    for name in ("gap_rms", "gap_abs"):
        assert found.metrics[name].ci_low == 0 < found.metrics[name].value, name
    held = [g.metrics["tpr_gap"].ci_low <= 0 <= g.metrics["tpr_gap"].ci_high for g in found.groups]
    assert sum(held) >= 25 and len(held) == 28
    assert found.metrics["prediction_consistency"].value == 1
    assert found.metrics["prediction_consistency"].ci_low < 1
    assert found.metrics["ctf"].value == found.metrics["ctf_gap"].value == 0
    assert found.metrics["balanced_accuracy"].value > 0.3


def test_more_gendered_wording_is_more_of_a_gap_and_less_consistent(by_strength):
    gaps = [found.metrics["gap_rms"].value for found in by_strength.values()]
    same = [found.metrics["prediction_consistency"].value for found in by_strength.values()]
    ctf = [found.metrics["ctf"].value for found in by_strength.values()]
    assert gaps == sorted(gaps) and len(set(gaps)) == 4
    assert same == sorted(same, reverse=True) and len(set(same)) == 4
    assert ctf == sorted(ctf) and ctf[-1] > 0.005
    full = by_strength[1].metrics
    assert full["gap_rms"].ci_low > 0.1 and full["gap_share_correlation"].ci_low > 0.3


def test_mitigations_are_consistent_and_the_table_says_what_they_cost(compared):
    outcome, _, _ = compared
    assert [group.by["train"] for group in outcome.groups[:5]] == list(TRAININGS)
    base = outcome.groups[0].metrics
    assert outcome.metrics == base
    for train in ("cda", "scrub", "sensei"):
        own = by(outcome, train=train).metrics
        assert own["prediction_consistency"].ci_low > base["prediction_consistency"].ci_high
        assert own["gap_rms"].value < base["gap_rms"].value
        assert own["balanced_accuracy"].value > base["balanced_accuracy"].value - 0.1
        cost = own["balanced_accuracy"].value - base["balanced_accuracy"].value
        assert any(
            note.startswith(f"{train} against baseline: balanced_accuracy {cost:+.4f}, prediction_consistency +")
            for note in outcome.notes
        )
    assert by(outcome, train="balanced").metrics["gap_rms"].value < base["gap_rms"].value
    assert by(outcome, train="scrub").metrics["prediction_consistency"].value == 1
    assert len(outcome.groups) == 5 + 5 * 28


def test_each_training_alone_is_the_same_as_among_all(compared):
    outcome, _, _ = compared
    for train in TRAININGS[1:]:
        alone, _, _ = measured(train=train)
        assert alone.metrics == by(outcome, train=train).metrics, train


def test_records_recompute_the_metrics(compared):
    outcome, records, data = compared
    rows = [row for row in records if row["train"] == "cda"]
    found = by(outcome, train="cda").metrics
    assert len(rows) == sum(item.row.split == "test" for item in data.rows)
    same = np.mean([row["prediction"] == row["prediction_counterfactual"] for row in rows])
    assert found["prediction_consistency"].value == pytest.approx(same)
    half = [((row["p_predicted"] - row["p_predicted_counterfactual"]) / 2) ** 2 for row in rows]
    assert found["ctf"].value == pytest.approx(np.mean(half))
    recall = [np.mean([r["prediction"] == name for r in rows if r["label"] == name]) for name in OCCUPATIONS]
    assert found["balanced_accuracy"].value == pytest.approx(np.mean(recall))
    gaps = []
    for name in OCCUPATIONS:
        rate = {
            g: np.mean([r["prediction"] == name for r in rows if r["label"] == name and r["gender"] == g])
            for g in ("female", "male")
        }
        gaps.append(rate["female"] - rate["male"])
        group = by(outcome, **{"train": "cda", "class": name})
        assert group.metrics["tpr_gap"].value == pytest.approx(gaps[-1])
    assert found["gap_rms"].value == pytest.approx(np.sqrt(np.mean(np.square(gaps))))


def test_the_compounding_imbalance_plot_can_be_drawn(by_strength):
    points = [(g.metrics["share_women"].value, g.metrics["tpr_gap"].value) for g in by_strength[1].groups]
    r = np.corrcoef(*zip(*points, strict=True))[0, 1]
    assert by_strength[1].metrics["gap_share_correlation"].value == pytest.approx(r) and r > 0.3


# --- what is asked


def asked(train, split, text="He is tall. Ada sings."):
    own = checked(SYNTHETIC.options, {"train": train}, where="")
    data = bios_synthetic.Dataset(
        rows=(bios_synthetic.Biography("a", text, "dj", "male", split),), source="", sha256=""
    )
    (item,) = tasks.bios.items(data, tasks.bios.swap.load("pronouns"), train=train).rows
    return [request.text for request in SYNTHETIC.ask(item, own, "embed", seed=0)]


def test_only_what_a_training_reads_is_asked():
    text, twin, bare = "He is tall. Ada sings.", "She is tall. Ada sings.", "is tall. Ada sings."
    assert asked("baseline", "train") == asked("balanced", "train") == [text]
    assert asked("baseline", "test") == asked("cda", "train") == asked("sensei", "test") == [text, twin]
    assert asked("scrub", "train") == [bare] and asked("scrub", "test") == [bare, bare]
    assert asked("all", "test") == [text, twin, bare, bare]


def test_pooling_is_asked_of_the_model():
    own = checked(SYNTHETIC.options, {"pooling": "cls"}, where="")
    data = SYNTHETIC.load(own, None, offline=True)
    assert SYNTHETIC.ask(data.rows[0], own, "embed", seed=0)[0] == Embed(data.rows[0].row.text, "first")
    assert SYNTHETIC.method(own, "embed") == "logistic on cls-pooled vectors, train=baseline, swap=pronouns"


def test_a_list_of_one_s_own_and_texts_without_its_words_are_counted(table):
    path = table("king,queen\n", "words.csv")
    outcome, _, data = measured(swap=str(path))
    assert outcome.metrics["prediction_consistency"].value == 1
    assert any("swapped: words.csv; 1,120 of 1,120 test texts have no such word" in note for note in data.notes)


def test_the_first_rows_have_both_splits():
    data = SYNTHETIC.load(checked(SYNTHETIC.options, {}, where=""), None, offline=True)
    splits = Counter(item.row.split for item in data.rows[:100])
    assert 40 < splits["train"] < 80 and splits["test"] > 20


@pytest.mark.parametrize(
    "options", [{"size": 2799}, {"size": 393424}, {"strength": 1.1}, {"train": "fair"}, {"c": 0}, {"x": 1}]
)
def test_options_that_will_not_do(options):
    with pytest.raises(InputError):
        checked(SYNTHETIC.options, options, where="--option bios-synthetic.")


def test_made_up_texts_take_no_file():
    with pytest.raises(InputError, match="--tasks bios"):
        SYNTHETIC.load(checked(SYNTHETIC.options, {}, where=""), "own.csv", offline=True)


# --- rows that cannot be trained on, answers that will not do


def file(tmp_path, rows):
    path = tmp_path / "own.jsonl"
    keys = ("hard_text", "profession", "gender", "split")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    return str(path)


def test_one_class_no_test_row_no_train_row(tmp_path):
    rows = [(f"he {i}", "dj", "m", "train" if i % 2 else "test") for i in range(8)]
    with pytest.raises(InputError, match="all of one class"):
        measured(BIOS, file(tmp_path, rows))
    for part in ("test", "train"):
        with pytest.raises(InputError, match=f"no {part} rows"):
            measured(BIOS, file(tmp_path, [row for row in rows if row[3] != part]))


def test_vectors_that_will_not_do():
    own = checked(SYNTHETIC.options, {}, where="")
    data = SYNTHETIC.load(own, None, offline=True)
    answers = [[vector(r.text) for r in SYNTHETIC.ask(item, own, "embed", seed=0)] for item in data.rows]
    answers[5] = [Vector([float("nan")] * SIZE)] * len(answers[5])
    with pytest.raises(ModelError, match=f"not finite for item '{data.rows[5].id}'"):
        SYNTHETIC.read_together(data.rows, own, "embed", answers, seed=0)
    answers[5] = [Vector([1.0])] * len(answers[5])
    with pytest.raises(ModelError, match="gives 1 numbers for item"):
        SYNTHETIC.read_together(data.rows, own, "embed", answers, seed=0)


def test_a_classifier_at_chance_is_warned_about(tmp_path):
    chance = np.random.default_rng(0)
    jobs, genders = ["dj", "nurse"], ["m", "f"]
    rows = [
        (
            f"w{chance.integers(9)} he",
            jobs[chance.integers(2)],
            genders[chance.integers(2)],
            "train" if i % 2 else "test",
        )
        for i in range(300)
    ]
    outcome, _, _ = measured(BIOS, file(tmp_path, rows))
    assert any("no better than chance (0.500)" in note for note in outcome.notes)


# --- predictions of one's own

CHECK = """id,label,gender,prediction,prediction_counterfactual
1,nurse,female,nurse,nurse
2,nurse,female,nurse,surgeon
3,nurse,male,surgeon,surgeon
4,nurse,male,nurse,nurse
5,surgeon,male,surgeon,surgeon
6,surgeon,male,surgeon,surgeon
7,surgeon,female,nurse,surgeon
8,dj,male,dj,poet
"""


def test_predictions_by_hand_and_what_is_undefined(table, tmp_path):
    found = score("bios", table(CHECK), bootstrap=200, out=tmp_path / "run")["tasks"]["bios"]
    metrics = found["metrics"]
    assert list(metrics) == [metric.name for metric in METRICS] == [metric.name for metric in BIOS.card.metrics]
    assert metrics["balanced_accuracy"]["value"] == pytest.approx((3 / 4 + 2 / 3 + 1) / 3)
    assert metrics["gap_rms"]["value"] == pytest.approx((1.25 / 2) ** 0.5)
    assert metrics["gap_abs"]["value"] == pytest.approx(0.75)
    assert metrics["gap_rms"]["n_undefined"] == 1
    assert metrics["prediction_consistency"]["value"] == pytest.approx(5 / 8)
    for name in ("ctf", "ctf_true", "ctf_gap", "gap_share_correlation"):
        assert metrics[name]["value"] is None and metrics[name]["reason"]
    groups = {group["by"]["class"]: group for group in found["groups"]}
    assert list(groups) == ["dj", "nurse", "surgeon"]
    undefined = groups["dj"]["metrics"]
    assert undefined["tpr_gap"]["value"] is None and undefined["tpr_gap"]["reason"] == "no female row of this class"
    assert undefined["tpr_female"]["value"] is None and undefined["tpr_male"]["value"] == 1
    assert undefined["tpr_male"]["n"] == 1
    assert "left out of the gaps, 1 of 3 classes: dj (no female)" in found["notes"]
    assert found["data"]["n"] == 8 and found["data"]["n_female"] == 3 and found["method"] == "predictions"
    assert len(pq.read_table(tmp_path / "run" / "records" / "bios.parquet")) == 8


def test_predictions_without_a_twin_and_of_one_gender(table):
    text = "id,label,gender,prediction\na,dj,f,dj\nb,nurse,f,poet\n"
    found = score("bios", table(text), bootstrap=50)["tasks"]["bios"]
    assert found["metrics"]["prediction_consistency"]["reason"] == "there are no predictions for swapped texts"
    assert found["metrics"]["gap_rms"]["value"] is None
    assert any("no row is male" in note for note in found["notes"])
    assert any("predicted but never true, in no mean over classes: poet" in note for note in found["notes"])


def test_probabilities_give_counterfactual_fairness(table):
    rows = [
        {"id": str(i), "label": "dj", "gender": "mf"[i % 2], "prediction": "poet", "prediction_counterfactual": "dj",
         "probabilities": {"dj": 0.25, "poet": 0.75}, "probabilities_counterfactual": {"dj": 0.75, "poet": 0.25}}
        for i in range(6)
    ]  # fmt: skip
    found = score("bios", table("\n".join(map(json.dumps, rows)), "p.jsonl"), bootstrap=50)["tasks"]["bios"]["metrics"]
    assert found["ctf"]["value"] == found["ctf_true"]["value"] == pytest.approx(0.0625)
    assert found["ctf_gap"]["value"] == pytest.approx(0.5)
    assert found["prediction_consistency"]["value"] == 0 and found["prediction_consistency"]["ci_high"] > 0


def test_no_other_data_is_read_with_predictions(table):
    with pytest.raises(InputError, match="no other data is read"):
        score("bios", table(CHECK), data="x.csv")


def test_98_000_predictions_by_command(cli, tmp_path):
    rng = np.random.default_rng(0)
    y, g = rng.integers(0, 28, 98_000), rng.integers(0, 2, 98_000)
    p, q = (np.where(rng.random(98_000) < 0.7, y, rng.integers(0, 28, 98_000)) for _ in range(2))
    lines = [f"{i},{a},{b},{c},{d}" for i, (a, b, c, d) in enumerate(zip(y, g, p, q, strict=True))]
    path = tmp_path / "p.csv"
    path.write_text("id,label,gender,prediction,prediction_counterfactual\n" + "\n".join(lines))
    began = time.monotonic()
    done = cli("score", "bios", "--predictions", path, "--bootstrap", 2000, "--json")
    assert done.rc == 0 and not done.stderr
    found = json.loads(done.stdout)["tasks"]["bios"]
    assert found["data"]["n"] == 98_000
    assert found["metrics"]["gap_rms"]["ci_low"] == 0
    assert time.monotonic() - began < 60


def test_a_broken_file_is_one_line(cli, table):
    done = cli("score", "bios", "--predictions", table(CHECK.replace("5,surgeon,male", "5,surgeon,mal"), "p.csv"))
    assert done.rc == 2 and not done.stdout
    assert done.stderr.count("\n") == 1 and "p.csv, row 5 (line 6), column 'gender': 'mal' where" in done.stderr


# --- whole runs


@pytest.fixture
def encoder(script):
    """A scripted model that has the hashing encoder's vectors of these rows' texts."""

    def write(task, source=None, **options):
        own = checked(task.options, options, where="")
        data = task.load(own, source, offline=True)
        texts = {request.text for item in data.rows for request in task.ask(item, own, "embed", seed=0)}
        return script("encoder.json", Embed={text: [round(x, 4) for x in vector(text).values] for text in texts})

    return write


SECRET = "Quibbleworth"


def test_no_text_gets_out(tmp_path, encoder, cli):
    chance = np.random.default_rng(0)
    rows = [
        (f"He is {SECRET} {i}, w{chance.integers(30)} in the lighthouse", ["dj", "nurse"][i % 2], "mf"[i % 3 == 0],
         "train" if i % 4 else "test") for i in range(120)
    ]  # fmt: skip
    source = file(tmp_path, rows)
    model = encoder(BIOS, source, train="all")
    done = cli("run", model, "--tasks", "bios", "--data", f"bios={source}", "--option", "bios.train=all", "--out", "r")
    assert done.rc == 0, done.stderr
    folder = tmp_path / "r"
    shown = done.stdout + done.stderr + json.dumps(pq.read_table(folder / "records" / "bios.parquet").to_pylist())
    assert SECRET not in shown and "lighthouse" not in shown
    for path in folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    # a failing model's message does not show it either
    rows[7] = (f"She is {SECRET} of the lighthouse, who is not written down in the script at all", *rows[7][1:])
    done = cli("run", model, "--tasks", "bios", "--data", f"bios={file(tmp_path, rows)}", "--out", "s")
    assert done.rc == 3 and SECRET not in done.stderr + done.stdout


def test_a_run_again_answers_nothing_and_says_the_same(tmp_path, encoder):
    model = encoder(SYNTHETIC)
    first = evenhand.run(model, "bios-synthetic", out=tmp_path / "a", bootstrap=99)
    raw = (tmp_path / "a" / "results.json").read_bytes()
    again = evenhand.run(model, "bios-synthetic", out=tmp_path / "a", bootstrap=99)
    assert (tmp_path / "a" / "results.json").read_bytes() == raw
    assert json.loads((tmp_path / "a" / "run.json").read_bytes())["work"]["passes"] == 0
    entry = first.results["tasks"]["bios-synthetic"]
    assert entry["form"] == "embed" and entry["data"]["n"] == 1120 == len(again.records("bios-synthetic"))
    assert entry["data"]["source"] == "bios-synthetic size=2800 strength=1 seed=0"
    row = again.records("bios-synthetic")[0]
    assert set(row) >= {"item", "label", "gender", "prediction", "text_sha256", "words_swapped"}


def test_a_limit_trains_and_tests_on_what_is_left(tmp_path, encoder):
    done = evenhand.run(encoder(SYNTHETIC), "bios-synthetic", out=tmp_path / "a", bootstrap=0, limit=300)
    entry = done.results["tasks"]["bios-synthetic"]
    assert 80 < entry["data"]["n"] < 160
    assert any("limited to the first 300" in note for note in entry["notes"])


@pytest.mark.slow
@pytest.mark.parametrize(("model", "limit"), [("minilm", 2800), ("demo", 200)])
def test_packaged_models_run_it(cli, model, limit):
    done = cli("run", model, "--tasks", "bios-synthetic", "--limit", limit, "--out", "r", "--json", timeout=1800)
    assert done.rc == 0, done.stderr
    found = json.loads(done.stdout)["tasks"]["bios-synthetic"]["metrics"]
    assert 0 < found["prediction_consistency"]["value"] < 1
    if model == "minilm":
        assert found["balanced_accuracy"]["ci_low"] > 0.5 and found["gap_rms"]["ci_low"] > 0
