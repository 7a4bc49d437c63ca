"""Gold and prediction files: what is read, what is counted, and one line for every fault.

All sentences here are made of placeholder words; StereoSet's own stay in the folder that EVENHAND_SHARED names.
"""

import copy
import dataclasses
import gzip
import hashlib
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenhand.data import stereoset, stereoset_predictions
from evenhand.errors import InputError

LABELS = ("stereotype", "anti-stereotype", "unrelated")
SHA256 = {
    "dev": "73a0f31b711688112602e4c3ac6ab1e1a7cadcdd67df6c6fd55501c889676c90",
    "test": "f3f70d1880b443388744958d192c25364d68c2b8ae7aeb9174903bcf415c394e",
}


@pytest.fixture(scope="module")
def folder():
    """The data set's own files, kept out of the project."""
    root = Path(__file__).parents[2]
    found = (root / os.environ.get("EVENHAND_SHARED", "../shared") / "data" / "stereoset").resolve()
    if not found.is_dir():
        pytest.skip(f"no folder {found} (set EVENHAND_SHARED)")
    return found


def entry(number, context="One BLANK two.", target="term", order=(0, 1, 2)):
    sentences = [
        {"id": f"s{number}{k}", "sentence": context.replace("BLANK", f"w{k}"), "gold_label": LABELS[k], "labels": []}
        for k in order
    ]
    return {
        "id": f"e{number}",
        "target": target,
        "bias_type": "gender",
        "context": context,
        "harm": [],
        "sentences": sentences,
    }


def gold(*contexts):
    """A gold file with these intrasentence contexts (or one), and one intersentence example."""
    intra = [entry(number, context) for number, context in enumerate(contexts or ("One BLANK two.",))]
    inter = [entry(100, "First.", order=(2, 0, 1))]
    return {"version": "x", "data": {"intrasentence": intra, "intersentence": inter}}


def saved(tmp_path, value, name="gold.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def load(source):
    return stereoset.load(source, split="dev", offline=True)


def fault(path):
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert Path(path).name in message
    return message


# Gold


def test_examples_are_typed_and_sentences_stand_in_the_order_of_the_labels(tmp_path):
    data = load(saved(tmp_path, gold()))
    intra, inter = data.rows
    assert (intra.id, intra.target, intra.bias_type, intra.context, intra.format) == (
        "e0",
        "term",
        "gender",
        "One BLANK two.",
        "intrasentence",
    )
    assert intra.sentences[1] == stereoset.Sentence("s01", "One w1 two.", "anti-stereotype")
    assert inter.format == "intersentence"
    for row in data.rows:
        assert tuple(sentence.label for sentence in row.sentences) == LABELS
    assert not hasattr(intra, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        intra.id = "other"


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("crlf", [False, True])
def test_compression_and_line_ends_change_nothing(tmp_path, ending, pack, crlf):
    plain = json.dumps(gold(), indent=1).encode()
    path = tmp_path / f"gold.json{ending}"
    path.write_bytes(pack(plain.replace(b"\n", b"\r\n") if crlf else plain))
    data = load(str(path))
    assert data.rows == stereoset.read(plain, "plain")
    assert data.sha256 == hashlib.sha256(plain).hexdigest()
    assert data.source == path.name
    assert any("carriage returns" in note for note in data.notes) == crlf
    assert "the content is neither the published dev set nor the published test set" in data.notes


@pytest.mark.parametrize(("gone", "left"), [("intrasentence", "intersentence"), ("intersentence", "intrasentence")])
@pytest.mark.parametrize("empty", [False, True])
def test_a_missing_format_is_allowed_and_noted(tmp_path, gone, left, empty):
    value = gold()
    if empty:
        value["data"][gone] = []
    else:
        del value["data"][gone]
    data = load(saved(tmp_path, value))
    assert {row.format for row in data.rows} == {left}
    assert [note for note in data.notes if "there are no" in note] == [f"there are no {gone} examples"]


def test_unknown_keys_are_tolerated_everywhere(tmp_path):
    value = gold()
    value["more"] = value["data"]["more"] = 1
    value["data"]["intrasentence"][0]["more"] = {"x": []}
    value["data"]["intrasentence"][0]["sentences"][0]["more"] = None
    assert load(saved(tmp_path, value)).rows == load(saved(tmp_path, gold())).rows


def test_quirks_are_counted(tmp_path):
    value = gold(
        "BLANK one.", "One BLANK BLANK.", "One BLANKed.", "One.BLANK two.", 'One "BLANK".', "Two BLANK.", "Two BLANK."
    )
    value["data"]["intrasentence"][5]["sentences"][0]["sentence"] = "two w0."
    value["data"]["intrasentence"][6]["sentences"][1]["sentence"] = "Something else."
    data = load(saved(tmp_path, value))
    counts = {
        "contexts that begin with BLANK": 1,
        "contexts that hold BLANK more than once": 1,
        "contexts with BLANK glued to other text": 2,
        "sentences in another case than their context, of 18 (contexts with one BLANK)": 1,
        "intrasentence contexts that repeat an earlier one": 1,
        "intersentence contexts that repeat an earlier one": 0,
    }
    assert stereoset.quirks(data.rows) == counts
    for what, number in counts.items():
        assert (f"{what}: {number}" in data.notes) == (number > 0)


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_cut_and_broken_archives(tmp_path, ending):
    pack = {".gz": gzip.compress, ".xz": lzma.compress}[ending]
    whole = pack(json.dumps(gold()).encode())
    path = tmp_path / f"gold.json{ending}"
    for cut in (len(whole) // 2, len(whole) - 1, 8):
        path.write_bytes(whole[:cut])
        assert "cut short" in fault(str(path))
    path.write_bytes(whole[:30] + bytes(byte ^ 255 for byte in whole[30:60]) + whole[60:])
    assert "cannot be decompressed" in fault(str(path))
    path.write_text(json.dumps(gold()))
    assert "cannot be decompressed" in fault(str(path))


def test_more_than_the_limit_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "gold.json.gz"
    path.write_bytes(gzip.compress(json.dumps(gold()).encode()))
    monkeypatch.setattr(stereoset, "LIMIT", 100)
    assert "holds more than" in fault(str(path))


def test_no_such_file_and_no_file(tmp_path):
    assert "No such file" in fault(str(tmp_path / "nothing.json"))
    assert "directory" in fault(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[1, ", '{"data": \ud800'.encode(errors="replace").decode(), "[" * 100_000])
def test_not_json(tmp_path, text):
    assert "not JSON" in fault(saved(tmp_path, text))


def test_not_utf8(tmp_path):
    path = tmp_path / "gold.json"
    path.write_bytes(json.dumps(gold()).encode().replace(b"term", b"t\xffrm"))
    assert "not JSON" in fault(str(path))


@pytest.mark.parametrize(
    "value", [[], 1, None, "x", {}, {"data": []}, {"data": {}}, {"data": None}, {"intrasentence": []}]
)
def test_not_stereoset(tmp_path, value):
    assert "not StereoSet's form: no data.intrasentence" in fault(saved(tmp_path, json.dumps(value)))


def test_no_examples(tmp_path):
    value = {"data": {"intrasentence": [], "intersentence": []}}
    assert "has no examples" in fault(saved(tmp_path, value))


@pytest.mark.parametrize("value", [None, {}, "x", 3])
def test_a_format_that_is_no_list(tmp_path, value):
    assert "data.intrasentence is not a list" in fault(saved(tmp_path, {"data": {"intrasentence": value}}))


def broken(change):
    value = copy.deepcopy(gold("One BLANK.", "Two BLANK."))
    change(value["data"]["intrasentence"][1])
    return value


def with_labels(*labels):
    def change(example):
        for sentence, label in zip(example["sentences"], labels, strict=True):
            sentence["gold_label"] = label

    return change


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda e: e.pop("id"), ["entry 1", "key 'id' is missing"]),
        (lambda e: e.update(id=7), ["entry 1", "key 'id' is 7, not text"]),
        (lambda e: e.pop("target"), ["'e1'", "key 'target' is missing"]),
        (lambda e: e.pop("bias_type"), ["'e1'", "key 'bias_type' is missing"]),
        (lambda e: e.update(bias_type=None), ["'e1'", "key 'bias_type' is None"]),
        (lambda e: e.update(context="  "), ["'e1'", "key 'context' is '  '"]),
        (lambda e: e.update(context="No gap."), ["'e1'", "key 'context' holds no BLANK"]),
        (lambda e: e.update(target="\ud800"), ["'e1'", "key 'target'", "surrogate"]),
        (lambda e: e.pop("sentences"), ["'e1'", "key 'sentences'", "three"]),
        (lambda e: e.update(sentences={}), ["'e1'", "key 'sentences'", "three"]),
        (lambda e: e.update(sentences=[1, 2, 3]), ["'e1'", "key 'sentences'", "three"]),
        (lambda e: e["sentences"].pop(), ["'e1'", "key 'sentences'", "three"]),
        (lambda e: e["sentences"].append(e["sentences"][0]), ["'e1'", "key 'sentences'", "three"]),
        (lambda e: e["sentences"][2].pop("sentence"), ["'e1'", "sentence 2", "key 'sentence' is missing"]),
        (lambda e: e["sentences"][1].pop("id"), ["'e1'", "sentence 1", "key 'id' is missing"]),
        (lambda e: e["sentences"][0].pop("gold_label"), ["'e1'", "sentence 0", "key 'gold_label' is missing"]),
        (with_labels("stereotype", "related", "unrelated"), ["'e1'", "sentence 1", "key 'gold_label' is 'related'"]),
        (with_labels("Stereotype", "anti-stereotype", "unrelated"), ["'e1'", "sentence 0", "'Stereotype'"]),
        (with_labels("unrelated", "stereotype", "unrelated"), ["'e1'", "one sentence of each gold_label"]),
        (lambda e: e.update(id="e0"), ["the example id 'e0' stands 2 times"]),
        (lambda e: e.update(id="e100"), ["the example id 'e100' stands 2 times"]),
        (lambda e: e["sentences"][0].update(id="s02"), ["the sentence id 's02' stands 2 times"]),
        (lambda e: e.update(id="\x1b[2J" + "x" * 500, context=1), ["entry 1", "'\\x1b[2Jxxx", "..."]),
    ],
)  # fmt: skip
def test_a_fault_names_its_place(tmp_path, change, parts):
    message = fault(saved(tmp_path, broken(change)))
    assert all(part in message for part in parts), message
    assert "\x1b" not in message
    assert len(message) < 300


def test_an_entry_that_is_no_object(tmp_path):
    value = gold()
    value["data"]["intersentence"] = [["x"]]
    assert "intersentence entry 0: is ['x'], not an object" in fault(saved(tmp_path, value))


def test_the_fetched_set_is_asked_for_by_split(monkeypatch, tmp_path):
    from evenhand.data import stereoset_sources

    asked = []

    def answer(split, *, offline):
        asked.append((split, offline))
        return Path(saved(tmp_path, gold()))

    monkeypatch.setattr(stereoset_sources, "fetch", answer)
    data = stereoset.load(None, split="test", offline=False)
    assert asked == [("test", False)]
    assert data.source == "stereoset test"
    assert len(data.rows) == 2


def test_the_projects_own_small_set():
    data = load("mini")
    assert data.source == "stereoset-mini"
    assert len(data.rows) >= 40
    assert {(row.format, row.bias_type) for row in data.rows} == {
        (form, kind)
        for form in ("intrasentence", "intersentence")
        for kind in ("gender", "profession", "race", "religion")
    }
    assert not any("published" in note for note in data.notes)


def test_published_dev(folder):
    data = load(str(folder / "dev.json.xz"))
    assert (data.source, data.sha256) == ("dev", SHA256["dev"])
    assert [sum(row.format == form for row in data.rows) for form in stereoset.FORMATS] == [2106, 2123]
    assert len({row.target for row in data.rows}) == 79
    assert data.notes == (
        "contexts that begin with BLANK: 19",
        "contexts that hold BLANK more than once: 2",
        "contexts with BLANK glued to other text: 4",
        "sentences in another case than their context, of 6312 (contexts with one BLANK): 2376",
        "intrasentence contexts that repeat an earlier one: 40",
        "intersentence contexts that repeat an earlier one: 8",
    )


def test_published_dev_with_crlf_is_still_the_published_one(folder, tmp_path):
    path = tmp_path / "copy.json"
    path.write_bytes(lzma.decompress((folder / "dev.json.xz").read_bytes()).replace(b"\n", b"\r\n"))
    data = load(str(path))
    assert (data.source, data.sha256) == ("dev", SHA256["dev"])
    assert "carriage returns" in data.notes[0]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_published_test_stays_small_in_memory(folder):
    """In a process of its own, since the peak never falls again."""
    code = """
import json, pathlib, re, sys
from evenhand.data import stereoset, stereoset_predictions
data = stereoset.load(sys.argv[1], split="dev", offline=True)
# not getrusage: its peak is inherited from the process that started this one
peak = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) / 1024
formats = [sum(row.format == form for row in data.rows) for form in stereoset.FORMATS]
print(json.dumps([peak, data.source, data.sha256, formats, len({row.target for row in data.rows})]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder / "test.json.xz")], capture_output=True, text=True, check=True
    )
    peak, *facts = json.loads(done.stdout)
    assert facts == ["test", SHA256["test"], [6392, 6374], 242]
    assert peak < 600


# Predictions


def predicted(tmp_path, value, name="predictions.json"):
    return stereoset_predictions.read_predictions(saved(tmp_path, value, name))


def scores(*pairs):
    return [{"id": sentence, "score": score} for sentence, score in pairs]


def prediction_fault(tmp_path, value):
    with pytest.raises(InputError) as caught:
        predicted(tmp_path, value)
    message = str(caught.value)
    assert "\n" not in message
    assert "predictions.json" in message
    return message


def test_predictions_are_read_by_format(tmp_path):
    both = {"intersentence": scores(("b", 2)), "intrasentence": scores(("a", 1.5), ("c", -3e-9)), "model": "m"}
    assert predicted(tmp_path, both) == {"intrasentence": {"a": 1.5, "c": -3e-9}, "intersentence": {"b": 2.0}}
    assert predicted(tmp_path, {"intrasentence": scores(("a", 0))}) == {"intrasentence": {"a": 0.0}}
    assert predicted(tmp_path, {"intrasentence": [], "intersentence": scores(("a", 0))}) == {
        "intersentence": {"a": 0.0}
    }


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_predictions_may_be_compressed(tmp_path, ending, pack):
    path = tmp_path / f"predictions.json{ending}"
    whole = pack(json.dumps({"intrasentence": scores(("a", 1))}).encode())
    path.write_bytes(whole)
    assert stereoset_predictions.read_predictions(path) == {"intrasentence": {"a": 1.0}}
    path.write_bytes(whole[:-5])
    with pytest.raises(InputError, match="cut short"):
        stereoset_predictions.read_predictions(path)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("{", ["not JSON"]),
        ([], ["no intrasentence and no intersentence"]),
        ({"predictions": []}, ["no intrasentence and no intersentence"]),
        ({"data": {"intrasentence": []}}, ["no intrasentence and no intersentence"]),
        ({"intrasentence": {"a": 1}}, ["intrasentence is not a list"]),
        ({"intrasentence": []}, ["has no scores"]),
        ({"intrasentence": [["a", 1]]}, ["intrasentence entry 0", "not an object"]),
        ({"intrasentence": [{"score": 1}]}, ["intrasentence entry 0", "key 'id' is missing"]),
        ({"intrasentence": [{"id": "a"}]}, ["'a'", "key 'score'"]),
        ({"intersentence": scores(("a", 1), ("b", float("nan")))}, ["intersentence entry 1", "'b'", "nan"]),
        ({"intrasentence": scores(("a", float("inf")))}, ["'a'", "inf", "not a finite number"]),
        ({"intrasentence": scores(("a", float("-inf")))}, ["'a'", "-inf", "not a finite number"]),
        ({"intrasentence": scores(("a", 10**400))}, ["'a'", "not a finite number"]),
        ({"intrasentence": scores(("a", "0.5"))}, ["'a'", "'0.5', not a number"]),
        ({"intrasentence": scores(("a", None))}, ["'a'", "None, not a number"]),
        ({"intrasentence": scores(("a", True))}, ["'a'", "True, not a number"]),
        ({"intrasentence": scores(("a", [1]))}, ["'a'", "[1], not a number"]),
        ({"intrasentence": scores(("a", 1), ("b", 1), ("a", 1))}, ["intrasentence", "id 'a' stands 2 times"]),
    ],
)
def test_faults_of_predictions_name_the_thing(tmp_path, value, parts):
    message = prediction_fault(tmp_path, value)
    assert all(part in message for part in parts), message


@pytest.fixture
def rows():
    value = gold("One BLANK.", "Two BLANK.")
    return stereoset.read(json.dumps(value).encode(), "gold")


def complete(rows):
    """Every sentence scored by its place among the labels and its example's number."""
    made = {}
    for number, row in enumerate(rows):
        for k, sentence in enumerate(row.sentences):
            made.setdefault(row.format, {})[sentence.id] = 10.0 * number + k
    return made


def test_matched_gives_scores_in_the_order_of_the_labels(rows):
    found = stereoset_predictions.matched(complete(rows), rows, allow_missing=False)
    assert found.examples == rows
    assert found.scores == ((0.0, 1.0, 2.0), (10.0, 11.0, 12.0), (20.0, 21.0, 22.0))
    assert found.coverage == {"intrasentence": (2, 2), "intersentence": (1, 1)}


def test_a_format_that_the_predictions_lack_is_out_of_scope(rows):
    predictions = complete(rows)
    del predictions["intrasentence"]
    found = stereoset_predictions.matched(predictions, rows, allow_missing=False)
    assert found.examples == rows[2:]
    assert found.coverage == {"intersentence": (1, 1)}


def test_a_missing_score_is_named_or_left_out(rows):
    predictions = complete(rows)
    del predictions["intrasentence"]["s11"], predictions["intrasentence"]["s12"]
    with pytest.raises(InputError, match="intrasentence: 2 of 6 sentences have no score, id 's11' the first"):
        stereoset_predictions.matched(predictions, rows, allow_missing=False)
    found = stereoset_predictions.matched(predictions, rows, allow_missing=True)
    assert [row.id for row in found.examples] == ["e0", "e100"]
    assert found.scores == ((0.0, 1.0, 2.0), (20.0, 21.0, 22.0))
    assert found.coverage == {"intrasentence": (1, 2), "intersentence": (1, 1)}


@pytest.mark.parametrize("allow_missing", [False, True])
def test_an_unknown_id_is_a_fault_either_way(rows, allow_missing):
    predictions = complete(rows)
    predictions["intersentence"] |= {"x1": 1.0, "x2": 1.0}
    with pytest.raises(InputError, match="intersentence: 2 of 5 ids are not in the gold file, 'x1' the first"):
        stereoset_predictions.matched(predictions, rows, allow_missing=allow_missing)
    with pytest.raises(InputError, match="1 of 1 ids are not in the gold file, 's00' the first"):
        stereoset_predictions.matched({"intersentence": {"s00": 1.0}}, rows, allow_missing=allow_missing)


def test_nothing_left_is_a_fault(rows):
    with pytest.raises(InputError, match="no example has a score for each"):
        stereoset_predictions.matched({"intrasentence": {"s00": 1.0}}, rows, allow_missing=True)


def test_published_predictions_name_every_sentence_of_dev_and_none_of_another_split(folder):
    path = folder / "predictions" / "predictions_gpt2_ModelNSP_GPT2LM.json.xz"
    predictions = stereoset_predictions.read_predictions(path)
    assert {form: len(found) for form, found in predictions.items()} == {"intrasentence": 6318, "intersentence": 6369}
    rows = load("mini").rows
    with pytest.raises(InputError, match="6318 of 6318 ids are not in the gold file"):
        stereoset_predictions.matched(predictions, rows, allow_missing=True)
