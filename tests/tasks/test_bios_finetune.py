"""bios where the model itself is trained: what is asked, whole runs on a tiny encoder, what is refused."""

import sys
from pathlib import Path

import numpy as np
import pytest

import evenhand
from evenhand import tasks
from evenhand.errors import InputError, UnsupportedError
from evenhand.requests import Classify, Vector
from evenhand.spec import checked

sys.path.append(str(Path(__file__).parents[1] / "models"))
SYNTHETIC = tasks.get("bios-synthetic")


@pytest.fixture(scope="module")
def tiny_encoder(tmp_path_factory):
    import tiny

    return f"encoder:{tiny.save(tmp_path_factory.mktemp('bert') / 'model', 'BertForMaskedLM')}"


def asked(n=300, **options):
    own = checked(SYNTHETIC.options, {"classifier": "finetune", **options}, where="--option bios-synthetic.")
    items = SYNTHETIC.load(own, None, offline=True).rows[:n]
    return own, items, SYNTHETIC.ask_together(items, own, "classify", seed=5)


def test_one_request_per_training_holds_the_rows_that_are_read():
    _, items, found = asked(train="all")
    train = [item for item in items if item.row.split == "train"]
    test = [item for item in items if item.row.split == "test"]
    assert len(found) == len(items) and not any(found[1:])
    base, balanced, cda, scrub = found[0]
    assert all(isinstance(request, Classify) and request.seed == 5 for request in found[0])
    assert base.texts == tuple(item.row.text for item in train) and not base.weights
    assert set(base.queries) == {text for item in test for text in (item.row.text, item.twin)}
    assert len(set(base.queries)) == len(base.queries)
    assert np.mean(balanced.weights) == pytest.approx(1) and len(set(balanced.weights)) > 1
    assert cda.texts == base.texts + tuple(item.twin for item in train) and cda.labels == base.labels * 2
    assert scrub.texts == tuple(item.scrubbed[0] for item in train)
    assert {type(label) for label in base.labels} == {int} and set(base.labels) == set(range(max(base.labels) + 1))


def test_probabilities_come_to_the_rows_they_are_of():
    own, items, found = asked(train="scrub")
    (request,) = found[0]
    rng = np.random.default_rng(0)
    said = rng.random((len(request.queries), max(request.labels) + 1)).astype(np.float32)
    records = SYNTHETIC.read_together(items, own, "classify", [[Vector(said.reshape(-1).tolist())]], seed=5)
    test = [item for item in items if item.row.split == "test"]
    learnt = sorted({item.row.label for item in items if item.row.split == "train"})
    assert [row["item"] for row in records] == [item.id for item in test]
    for row, item in zip(records, test, strict=True):
        values, twin = (said[request.queries.index(text)] for text in item.scrubbed)
        assert row["prediction"] == learnt[values.argmax()] and row["p_predicted"] == pytest.approx(values.max())
        assert row["prediction_counterfactual"] == learnt[twin.argmax()]


def test_a_whole_run_and_again(tmp_path, tiny_encoder):
    how = {"options": {"bios-synthetic": {"classifier": "finetune", "train": "all", "epochs": 1}}}
    said = []

    class Told(evenhand.run.__globals__["Silent"]):
        def say(self, line):
            said.append(line)

    first = evenhand.run(
        tiny_encoder,
        "bios-synthetic",
        out=tmp_path / "a",
        limit=150,
        bootstrap=50,
        device="cpu",
        progress=Told(),
        **how,
    )
    entry = first.results["tasks"]["bios-synthetic"]
    assert entry["form"] == "classify"
    assert entry["method"].startswith("finetune of the model, mean-pooled, epochs=1, learning_rate=0.0001, train=all")
    trained = [group["by"]["train"] for group in entry["groups"] if "class" not in group["by"]]
    assert trained == ["baseline", "balanced", "cda", "scrub"]
    assert any(line.startswith("trained on ") and "pass 1 of 1" in line for line in said)
    rows = first.records("bios-synthetic")
    assert all(0 <= row["p_true"] <= 1 for row in rows)
    raw = (tmp_path / "a" / "results.json").read_bytes()
    said.clear()
    again = evenhand.run(
        tiny_encoder,
        "bios-synthetic",
        out=tmp_path / "a",
        limit=150,
        bootstrap=50,
        device="cpu",
        progress=Told(),
        **how,
    )
    assert (tmp_path / "a" / "results.json").read_bytes() == raw and again.records("bios-synthetic") == rows
    assert not said


def test_what_is_refused(script, tmp_path):
    with pytest.raises(
        InputError, match=r"^--option bios-synthetic: train=sensei is for classifier=probe alone"
    ) as one:
        asked(train="sensei")
    assert "\n" not in str(one.value)
    how = {"bios-synthetic": {"classifier": "finetune"}}
    with pytest.raises(UnsupportedError, match="asks for Classify, and this model answers Embed"):
        evenhand.run(script(Embed={"a": [1]}), "bios-synthetic", out=tmp_path / "b", options=how)


def test_rows_that_cannot_be_trained_on():
    with pytest.raises(InputError, match=r"no \w+ rows"):
        asked(n=1)
    own, items, _ = asked()
    same = [item for item in items if item.row.label == items[0].row.label]
    with pytest.raises(InputError, match="all of one class"):
        SYNTHETIC.ask_together(same, own, "classify", seed=0)
