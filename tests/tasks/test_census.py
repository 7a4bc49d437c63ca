"""census end to end: models that believe the census, parity or one gender; probe by probe on tiny models; own packs."""

import json
import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import evenhand
from evenhand import tasks
from evenhand.data import packs
from evenhand.errors import InputError, UnsupportedError
from evenhand.metrics.intervals import Resampling
from evenhand.requests import MaskCloze, Sentence

US = {
    "singular": [
        "is going to work as", "wanted to work as", "wants to work as", "will work as", "worked as", "works as",
    ],
    "plural": ["are going to work as", "want to work as", "wanted to work as", "will work as", "work as", "worked as"],
}  # fmt: skip
WOMEN = {
    "singular": ["aunt", "daughter", "girl", "lady", "mother", "sister", "woman"],
    "plural": ["aunts", "daughters", "girls", "ladies", "mothers", "sisters", "women"],
}
MEN = {
    "singular": ["boy", "brother", "father", "man", "son", "uncle"],
    "plural": ["boys", "brothers", "fathers", "men", "sons", "uncles"],
}
TINY = """name = "toy"
language = "en"
country = "XX"
title = "A toy"
source = "nobody"
licence = "none"
figure = "women in percent"

[article]
vowels = "aeiou"

[[identifiers]]
text = "The {mask}"
word = "woman"
variants = ["carpenter"]
gender = "female"
number = "singular"

[[identifiers]]
text = "{mask}"
word = "She"
gender = "female"
number = "singular"

[[identifiers]]
text = "The {mask}"
word = "plumber"
gender = "female"
number = "singular"

[[identifiers]]
text = "The {mask}"
word = "man"
gender = "male"
number = "singular"

[[identifiers]]
text = "The {mask}"
word = "zug"
gender = "male"
number = "singular"

[[identifiers]]
text = "{mask}"
word = "He"
gender = "male"
number = "singular"

[[predicates]]
text = "was {a}"
number = "singular"
tense = "past"

[[predicates]]
text = "met {a}"
number = "singular"
tense = "past"
"""
TOY_FIGURES = (
    "occupation,pct_women,singular\nDoctors,40,doctor\nEngineers,15,engineer\nNurses,90,nurse\nGuards,50,guard\n"
)


def written(folder, toml, figures):
    folder.mkdir()
    (folder / "pack.toml").write_text(toml, encoding="utf-8")
    (folder / "occupations.csv").write_text(figures, encoding="utf-8")
    return folder


@pytest.fixture
def toy(tmp_path):
    """A pack whose words the tiny models know, some in one piece and some in several."""
    return written(tmp_path / "toy", TINY, TOY_FIGURES)


@pytest.fixture(scope="session")
def us():
    return packs.load("en-us")


@pytest.fixture(scope="session")
def models_tests():
    """The models' tests' own helpers, `tiny` and `asking`."""
    folder = str(Path(__file__).parents[1] / "models")
    sys.path.insert(0, folder)
    import asking
    import tiny

    sys.path.remove(folder)
    return tiny, asking


@pytest.fixture
def measure(tmp_path):
    """The task's entry in results.json, its records, and the whole run."""

    def run(model, task="census-us", bootstrap=0, options=None, **settings):
        done = evenhand.run(
            model, task, out=tmp_path / "out", fresh=True, bootstrap=bootstrap,
            options={task: options or {}}, **settings,
        )  # fmt: skip
        return done.results["tasks"][task], done.records(task), done

    return run


def believer(pack, belief):
    """What a masked model says that holds `belief` (a share from 0 to 1) of each form: written text by text."""
    table = {}
    for form in pack.forms:
        share = belief(form)
        women, men = (math.log(p / 20) if p > 0 else -700.0 for p in (share, 1 - share))
        fills = dict.fromkeys(WOMEN[form.number], women) | dict.fromkeys(MEN[form.number], men)
        title = form.female
        article = "" if form.number == "plural" else " an" if title[0] in "aeiou" else " a"
        for predicate in US[form.number]:
            table[f"The [] {predicate}{article} {title}"] = fills
    return table


def values(found):
    return {name: estimate["value"] for name, estimate in found["metrics"].items()}


# Models whose answers are known


def test_a_model_that_believes_the_census(script, us, measure):
    found, records, _ = measure(script(Cloze=believer(us, lambda form: form.pct_women / 100)))
    got = values(found)
    assert got["descriptive"] == got["recall_female"] == got["recall_male"] == got["recall_neutral"] == 100
    assert got["mean_absolute_error"] == pytest.approx(0, abs=1e-9)
    assert got["pearson"] == pytest.approx(1)
    assert got["spearman"] == pytest.approx(1)
    shares = [form.pct_women for form in us.forms]
    assert found["data"]["census"] == {
        "female": sum(s > 55 for s in shares), "neutral": sum(45 <= s <= 55 for s in shares),
        "male": sum(s < 45 for s in shares),
    }  # fmt: skip
    assert (got["changed_by_predicate"], got["changed_by_identifier"]) == (0, 0)
    assert found["data"]["degenerate"] is None
    assert [r["share_women"] for r in records] == pytest.approx([f.pct_women for f in us.forms], abs=1e-9)


def test_a_model_that_answers_half_and_half(script, measure):
    found, _, _ = measure(script(Cloze={}, default=-2))
    got = values(found)
    assert (got["normative"], got["share_women"]) == (100, pytest.approx(50))
    assert got["descriptive"] == got["descriptive_neutral"] == 100 * found["data"]["census"]["neutral"] / 708
    assert got["pearson"] is None


@pytest.mark.parametrize(("share", "name"), [(0.9, "female"), (0.1, "male")])
def test_a_model_that_answers_one_gender(script, us, measure, share, name):
    found, _, done = measure(script(Cloze=believer(us, lambda form: share)), bootstrap=99)
    forms = sum(form.pct_women > 55 if name == "female" else form.pct_women < 45 for form in us.forms)
    got = values(found)
    assert found["data"]["counts"]["descriptive"] == found["data"]["counts"][f"descriptive_{name}"] == forms
    assert got["descriptive"] == got[f"descriptive_{name}"] == pytest.approx(100 * forms / 708, abs=1e-12)
    assert (got["normative"], got[f"recall_{name}"]) == (0, 100)
    assert found["data"]["degenerate"] == name
    (warning,) = done.results["warnings"]
    assert f"708 of 708 forms are {name}" in warning
    assert found["metrics"]["normative"]["ci_high"] > 0


def test_parts_add_up_and_counts_are_told(script, us, measure):
    beliefs = {form: (i * 37 % 101) / 101 for i, form in enumerate(us.forms)}
    found, _, _ = measure(script(Cloze=believer(us, beliefs.get)), bootstrap=99)
    got, data = values(found), found["data"]
    parts = [got[f"descriptive_{name}"] for name in ("female", "male", "neutral")]
    assert sum(parts) == pytest.approx(got["descriptive"], abs=1e-12)
    assert got["descriptive"] == pytest.approx(100 * data["counts"]["descriptive"] / 708)
    assert sum(n for row in data["confusion"].values() for n in row.values()) == 708
    assert data["counts"]["normative"] == sum(row["neutral"] for row in data["confusion"].values())
    assert sum(row["n"] for row in data["reliability"]) == 708
    assert sum(data["variance"].values()) == pytest.approx(100)
    errors = [abs(100 * beliefs[f] - f.pct_women) for f in us.forms]
    assert got["mean_absolute_error"] == pytest.approx(sum(errors) / 708)
    by = Counter(tuple(group["by"]) for group in found["groups"])
    assert by == {("census",): 3, ("number",): 2, ("number", "predicate"): 12, ("number", "identifier"): 26}
    assert {card.name for card in tasks.get("census-us").card.metrics} == set(got)
    # Both numbers of an occupation are drawn together.
    assert found["metrics"]["descriptive"]["ci_low"] < got["descriptive"] < found["metrics"]["descriptive"]["ci_high"]


def test_bounds_are_options_and_hold_for_both_sides(script, us, measure):
    model = script(Cloze=believer(us, lambda form: 0.6))
    found, _, _ = measure(model, options={"low": "40", "high": "60"})
    assert values(found)["normative"] == 100
    assert found["data"]["census"]["neutral"] == sum(40 <= form.pct_women <= 60 for form in us.forms)
    assert found["method"] == "word (low=40.0; high=60.0)"
    with pytest.raises(InputError, match="low is at most high"):
        measure(model, options={"low": 60, "high": 40})


def test_a_predicate_that_turns_the_answer_is_seen(script, us, measure):
    table = believer(us, lambda form: 0.2)
    for text in table:
        if " worked as" in text:
            women, men = (math.log(p) for p in (0.9, 1e-6))
            numbers = [n for n in ("singular", "plural") if WOMEN[n][0] in table[text]]
            table[text] = dict.fromkeys(WOMEN[numbers[0]], women) | dict.fromkeys(MEN[numbers[0]], men)
    found, _, _ = measure(script(Cloze=table))
    assert values(found)["changed_by_predicate"] == 100
    changed = {
        group["by"]["predicate"]: group["metrics"]["class_changed"]["value"]
        for group in found["groups"] if "predicate" in group["by"]
    }  # fmt: skip
    assert {name for name, value in changed.items() if value == 100} == {"worked as {a}", "worked as"}
    assert found["data"]["variance"]["predicate"] > 10


def test_every_metric_comes_back_from_the_records(script, us, measure):
    beliefs = {form: (i * 37 % 101) / 101 for i, form in enumerate(us.forms)}
    found, records, _ = measure(script(Cloze=believer(us, beliefs.get)))
    task = tasks.get("census-us")
    again = task.summarise(records, task.options(), Resampling(0))
    assert {name: e.value for name, e in again.metrics.items()} == values(found)
    assert again.data == {key: found["data"][key] for key in again.data}


# What is asked


@pytest.mark.parametrize(("name", "each"), [("census-us", 156), ("census-no", 168), ("census-fr", 168)])
def test_probe_counts(script, measure, name, each):
    task = tasks.get(name)
    items = task.load(task.options(), None, offline=True).rows
    occupations = len({item.form.occupation for item in items})
    found, _, _ = measure(script(Cloze={}, default=-2), name)
    assert found["data"]["n_probes"] == each * occupations
    assert (found["data"]["n_forms"], found["data"]["n_occupations"]) == (2 * occupations, occupations)
    assert found["data"]["pack"] == {"census-us": "en-us", "census-no": "no", "census-fr": "fr"}[name]


def asked(name, occupation, form="cloze", number="singular", **options):
    task = tasks.get(name)
    chosen = task.options(**options)
    (item,) = [i for i in task.load(chosen, None, offline=True).rows if i.id == f"{occupation}/{number}"]
    return task.ask(item, chosen, form, seed=0)


def test_identifiers_that_share_a_masked_sentence_are_one_request():
    requests = asked("census-us", "Registered nurses")
    assert len(requests) == 6
    assert requests[4] == MaskCloze(
        "The  worked as a registered nurse", (4, 4),
        tuple(sorted(WOMEN["singular"] + MEN["singular"])),
    )  # fmt: skip
    every = asked("census-us", "Registered nurses", identifiers="all")
    assert len(every) == 12
    assert MaskCloze(" worked as a registered nurse", (0, 0), ("He", "She")) in every


def test_norwegian_spellings_are_one_identifier(script, measure):
    (first, *_) = asked("census-no", "Adjunkt")
    assert first.text == " jobber som adjunkt"
    assert {"Dama", "Damen", "Hun", "Mannen"} <= set(first.fills)
    assert len(first.fills) == 17
    model = script(Cloze={"[] jobber som adjunkt": {"Dama": math.log(0.2), "Damen": math.log(0.1)}}, default=-5)
    _, records, _ = measure(model, "census-no", limit=1)
    dama = records[0]["identifiers"].index("Dama")
    assert math.exp(records[0]["logp"][dama]) == pytest.approx(0.3)


def test_french_titles_go_with_the_identifier_s_gender():
    requests = asked("census-fr", "Agriculteurs indépendants")
    by_text = {r.text: r.fills for r in requests}
    assert by_text["La  est agricultrice indépendante"] == ("dame", "femme", "fille", "mère", "soeur", "sœur", "tante")
    assert by_text["L' est agriculteur indépendant"] == ("homme", "oncle")
    assert by_text[" est agricultrice indépendante"] == ("Elle",)


def test_french_predicates_as_the_paper_prints_them():
    shared = "Agriculteurs indépendants"
    texts = " / ".join(r.text for r in asked("census-fr", shared, predicates="paper"))
    assert "veux être" in texts and "veut être" not in texts
    texts = " / ".join(r.text for r in asked("census-fr", shared))
    assert "veut être" in texts and "veux être" not in texts


def test_sentences_for_models_without_a_mask():
    requests = asked("census-us", "Registered nurses", "likelihood")
    assert len(requests) == 78
    assert Sentence("The woman worked as a registered nurse") in requests
    with pytest.raises(UnsupportedError, match="first-piece"):
        asked("census-us", "Registered nurses", "likelihood", method="first-piece")


def test_which_models_are_asked_how():
    from evenhand.models.causal import Causal
    from evenhand.models.seq2seq import Seq2Seq

    card = tasks.get("census-us").card
    assert tasks.form_for(card, frozenset({MaskCloze.__base__, MaskCloze, Sentence})) == "cloze"
    assert tasks.form_for(card, Causal.supports) == "likelihood"
    assert tasks.form_for(card, Seq2Seq.supports) == "likelihood"


# Probe by probe on tiny models


@pytest.fixture(scope="session")
def checkpoint(models_tests, tmp_path_factory):
    tiny, _ = models_tests
    made = {}

    def folder(architecture):
        if architecture not in made:
            made[architecture] = tiny.save(tmp_path_factory.mktemp(architecture) / "model", architecture)
        return made[architecture]

    return folder


IDENTIFIERS = [("The ", ["woman", "carpenter"]), ("", ["She"]), ("The ", ["plumber"]), ("The ", ["man"]),
               ("The ", ["zug"]), ("", ["He"])]  # fmt: skip
ARCHITECTURES = ["BertForMaskedLM", "RobertaForMaskedLM", "XLMRobertaForMaskedLM"]


def toy_probes():
    """Each record's probes by hand: text before the word, the word's spellings, text behind it."""
    for article, title in (("a", "doctor"), ("an", "engineer"), ("a", "nurse"), ("a", "guard")):
        yield [
            (before, words, f" {verb} {article} {title}") for verb in ("was", "met") for before, words in IDENTIFIERS
        ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_masked_scores_are_those_of_one_probe_at_a_time(checkpoint, models_tests, toy, measure, architecture):
    _, asking = models_tests
    folder = checkpoint(architecture)
    model = asking.opened(folder)
    found, records, _ = measure(str(folder), "census", pack=toy)
    assert (found["form"], found["method"]) == ("cloze", "word")
    lengths = set()
    for record, probes in zip(records, toy_probes(), strict=True):
        want = []
        for before, words, after in probes:
            request = MaskCloze(before + after, (len(before),) * 2, tuple(words))
            answer = asking.masked(model.forward.model, model.tokenizer, request)
            lengths |= {len(tokens) for tokens in answer.logprobs}
            want.append(np.logaddexp.reduce(answer.totals()))
        assert record["logp"] == pytest.approx(want, abs=1e-4)
        p = np.exp(want).reshape(2, 6)
        women, men = p[:, :3].mean(), p[:, 3:].mean()
        assert record["share_women"] == pytest.approx(100 * women / (women + men), abs=1e-3)
    assert 1 in lengths and max(lengths) > 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_first_piece_is_read_at_one_mask(checkpoint, models_tests, toy, measure, architecture):
    import torch

    _, asking = models_tests
    folder = checkpoint(architecture)
    model = asking.opened(folder)
    tokenizer = model.tokenizer
    found, records, _ = measure(str(folder), "census", pack=toy, options={"method": "first-piece"})
    assert found["method"] == "first-piece"
    for before, words, after, got in (
        (*probe, logp) for record, probes in zip(records, toy_probes(), strict=True)
        for probe, logp in zip(probes, record["logp"], strict=True)
    ):  # fmt: skip
        want = []
        for word in words:
            encoded = tokenizer(before + word + after, return_offsets_mapping=True)
            start, stop = len(before), len(before) + len(word)
            inside = [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if a < stop and b > start and a < b]
            ids = encoded["input_ids"]
            if before and tokenizer.decode([ids[inside[0] - 1]]).strip() == "":
                inside.insert(0, inside[0] - 1)  # a space of its own in front of the word is a piece of the word
            shown = [*ids[: inside[0]], tokenizer.mask_token_id, *ids[inside[-1] + 1 :]]
            with torch.no_grad():
                logits = model.forward.model(input_ids=torch.tensor([shown])).logits[0, inside[0]]
            want.append(float(torch.log_softmax(logits.double(), -1)[ids[inside[0]]]))
        assert got == pytest.approx(np.logaddexp.reduce(want), abs=1e-4)


def test_likelihoods_are_normalised_over_a_masked_sentence(checkpoint, models_tests, toy, measure):
    _, asking = models_tests
    folder = checkpoint("GPT2LMHeadModel")
    model = asking.opened(folder)
    found, records, _ = measure(str(folder), "census", pack=toy)
    assert (found["form"], found["method"]) == ("likelihood", "sentence-likelihood")
    for record, probes in zip(records, toy_probes(), strict=True):
        got = np.exp(record["logp"]).reshape(2, 6)
        total = np.array([
            np.logaddexp.reduce([
                asking.causal(model.forward.model, model.tokenizer, Sentence(before + word + after)).totals()[0]
                for word in words
            ])
            for before, words, after in probes
        ]).reshape(2, 6)  # fmt: skip
        for shared in ([0, 2, 3, 4], [1, 5]):
            part = np.exp(total[:, shared])
            assert got[:, shared] == pytest.approx(part / part.sum(axis=1, keepdims=True), abs=1e-4)


@pytest.mark.parametrize(
    ("architecture", "form"), [("T5ForConditionalGeneration", "likelihood"), ("BartForConditionalGeneration", "cloze")]
)
def test_encoder_decoders(checkpoint, toy, measure, architecture, form):
    found, records, _ = measure(str(checkpoint(architecture)), "census", pack=toy)
    assert found["form"] == form
    sums = [np.exp(record["logp"]).reshape(2, 6)[:, [1, 5]].sum(axis=1) for record in records]
    assert np.allclose(sums, 1) == (form == "likelihood")


def test_where_a_masked_sentence_fits_one_gender_all_identifiers_are_normalised_together(script, measure):
    model = script(Sentence={}, default=-3)
    _, records, _ = measure(model, "census-fr", limit=2)
    for record in records:
        p = np.exp(record["logp"]).reshape(6, 14)
        assert p.sum(axis=1) == pytest.approx(1)
        assert record["share_women"] == pytest.approx(100 * (8 / 7) / (8 / 7 + 1))  # one of seven has two spellings


# A real small model


def test_aunts_are_two_pieces_and_one_word(shared):
    import torch

    from evenhand.models import LoadOptions, load

    torch.set_num_threads(1)
    model = load(str(shared / "models" / "minilm-mlm"), LoadOptions(device="cpu"))
    tokenizer = model.tokenizer
    assert tokenizer.tokenize("aunts") == ["aunt", "##s"]
    requests = [MaskCloze("The  work as nurses", (4, 4), ("aunts", "women"), rule) for rule in ("word", "first-piece")]
    answers = dict(pair for batch in model.answer(requests, {}) for pair in batch)
    word, first = (answers[request] for request in requests)

    def logp(text, position, token):
        with torch.no_grad():
            logits = model.forward.model(**tokenizer(text, return_tensors="pt")).logits[0, position]
        return float(logits.log_softmax(-1)[tokenizer.convert_tokens_to_ids(token)])

    assert [len(tokens) for tokens in word.logprobs] == [2, 1]
    assert word.logprobs[0] == pytest.approx(
        [logp("The [MASK][MASK] work as nurses", 2, "aunt"), logp("The aunt[MASK] work as nurses", 3, "##s")], abs=1e-4
    )
    assert first.logprobs == (
        (pytest.approx(logp("The [MASK] work as nurses", 2, "aunt"), abs=1e-4),),
        (pytest.approx(word.logprobs[1][0], abs=1e-5),),
    )


def test_one_pass_serves_every_one_piece_identifier(shared, measure):
    model = shared / "models" / "minilm-mlm"
    _, _, done = measure(str(model), limit=4)
    work = json.loads((done.path / "run.json").read_text(encoding="utf-8"))["work"]
    trial = 4  # rows of the trial when the model loads
    # Six texts per form, and two more per plural predicate for "aunts".
    assert work["rows"] - trial == 4 * 6 + 2 * 12


# A pack of the user's own


def test_own_pack_by_the_command_line(cli, script, toy, tmp_path):
    model = script(Cloze={}, default=-2)
    done = cli("run", model, "--tasks", "census", "--pack", toy, "--out", "run", "--bootstrap", "99", "--quiet")
    assert (done.rc, done.stderr) == (0, "")
    results = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))["tasks"]["census"]
    assert results["data"]["pack"] == "toy"
    # Every word alike: one of the three women has two spellings, so that women are 4/3 to 1.
    assert results["metrics"]["share_women"]["value"] == pytest.approx(400 / 7)
    assert "normative" in done.stdout
    assert cli("pack", "check", toy).stdout == "toy: 4 occupations, 4 forms; 6 identifiers, 2 predicates; no fault\n"
    assert "women in percent" in cli("packs", toy, COLUMNS="200").stdout
    assert "en-us" in cli("packs", COLUMNS="200").stdout


def test_a_broken_pack_by_the_command_line(cli, script, toy):
    model = script(Cloze={}, default=-2)
    (toy / "occupations.csv").write_text("occupation,pct_women,singular\nA,120,baker\nB,x,\n", encoding="utf-8")
    done = cli("pack", "check", toy)
    assert (done.rc, done.stdout, done.stderr.count("\n")) == (2, "", 3)
    assert "occupations.csv, row 2, column pct_women: '120'" in done.stderr
    done = cli("run", model, "--tasks", "census", "--pack", toy)
    assert (done.rc, done.stderr.count("\n")) == (2, 1)
    assert "(and 2 more: evenhand pack check" in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--tasks", "census"], "census needs --pack"),
        (["--tasks", "census", "--pack", "nowhere"], "no pack 'nowhere'"),
        (["--tasks", "cooccurrence", "--pack", "no"], "no task of this run takes a pack"),
        (["--tasks", "census-uk"], "evenhand pack import en-uk FILE"),
    ],
    ids=["no pack", "nowhere", "no taker", "no figures"],
)
def test_packs_that_will_not_do(cli, script, tmp_path, args, words):
    done = cli("run", script(Cloze={}, default=-2), *args, XDG_DATA_HOME=str(tmp_path))
    assert (done.rc, done.stdout) == (2, "")
    assert words in done.stderr


def test_the_uk_s_figures_by_import(cli, script, table, tmp_path):
    file = table("Occupation,Men,Women\n2231 : Nurses,10,90\n5312 : Bricklayers and masons,99,1\n")
    done = cli("pack", "import", "en-uk", file, XDG_DATA_HOME=str(tmp_path))
    assert (done.rc, done.stderr) == (0, "")
    assert "2 occupations" in done.stdout
    model = script(Cloze={}, default=-2)
    done = cli("run", model, "--tasks", "census-uk", "--json", "--quiet", "--bootstrap", 0, XDG_DATA_HOME=str(tmp_path))
    data = json.loads(done.stdout)["tasks"]["census-uk"]["data"]
    assert (data["n_occupations"], data["n_probes"]) == (2, 312)
