"""Masked models: however inputs are shared and batched, the answers are those of one masked input at a time."""

import json
import random
import shutil

import asking
import pytest
import tiny

from evenhand.errors import InputError, ModelError
from evenhand.models import hub
from evenhand.requests import Cloze


def cloze(text, word, *fills, at=None):
    start = text.index(word) if at is None else at
    return Cloze(text, (start, start + len(word)), fills)


REQUESTS = [
    cloze("The doctor was a BLANK.", "BLANK", "female", "woman", "male", "man"),
    cloze("The nurse was a BLANK.", "BLANK", "female", "woman", "male", "man"),
    cloze("BLANK doctor was a man.", "BLANK", "The", "A", "carpenter"),
    cloze("The (BLANK), said the man; was late.", "BLANK", "plumber", "doctor", "teacher"),
    cloze("The man was a BLANK", "BLANK", "carpenter", "dancer", "nurse", "DOCTOR"),
    cloze("The man and the woman met the plumber, the baker and the BLANK in town.", "BLANK", "lawyer", "guard"),
    cloze("The doctor was a BLANK.", "doctor", "nurse", "doctor", "plumber"),
    cloze("BLANK", "BLANK", "man", "carpenter"),
    cloze("man was a man", "man", "doctor", "man", at=10),
]
ARCHITECTURES = sorted(tiny.MASKED)


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    return request.param


@pytest.fixture
def bert(checkpoint):
    return checkpoint("BertForMaskedLM")


def plain(model, requests):
    return {request: asking.masked(model.forward.model, model.tokenizer, request) for request in requests}


def test_answers_are_those_of_one_masked_input_at_a_time(checkpoint, architecture):
    model = asking.opened(checkpoint(architecture))
    assert model.kind == "masked"
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_the_trials_would_tell_right_from_wrong(checkpoint, architecture):
    found = asking.ask(asking.opened(checkpoint(architecture)), REQUESTS[:2])
    first, second = (found[request].totals() for request in REQUESTS[:2])
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) > 0.01


def test_the_split_is_in_use_and_trees_are_not(checkpoint, architecture):
    forward = asking.opened(checkpoint(architecture)).forward
    assert forward._body is not None
    assert forward._body is not forward.model
    assert not forward.trees


@pytest.mark.parametrize("batch_tokens", [1, 16, 4096])
def test_batch_size_and_order_do_not_matter(checkpoint, architecture, batch_tokens):
    usual = asking.ask(asking.opened(checkpoint(architecture)), REQUESTS)
    shuffled = random.Random(batch_tokens).sample(REQUESTS, len(REQUESTS))
    other = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), shuffled)
    assert asking.apart(usual, other) < 1e-5


def test_without_the_split_the_answers_are_the_same(checkpoint, architecture, monkeypatch):
    from evenhand.models.forward import Forward

    monkeypatch.setattr(Forward, "_agrees", lambda self, rows, want: False)
    model = asking.opened(checkpoint(architecture))
    assert model.forward._body is None
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_a_renamed_folder_is_the_same_model(checkpoint, architecture, tmp_path):
    other = shutil.copytree(checkpoint(architecture), tmp_path / "gpt2-roberta-xlnet")
    first, second = asking.opened(checkpoint(architecture)), asking.opened(other)
    assert first.identity().fingerprint == second.identity().fingerprint
    assert asking.ask(first, REQUESTS) == asking.ask(second, REQUESTS)


# --- what is read


def test_all_fills_of_one_piece_are_read_from_one_pass_over_the_masked_text(bert):
    model = asking.opened(bert)
    asked = [cloze("The BLANK was a nurse.", "BLANK", "doctor", "man", "woman", "guard")]
    _ = model.forward
    before = asking.work(model)
    (answer,) = asking.ask(model, asked).values()
    after = asking.work(model)
    assert after["tokens"] - before["tokens"] == len(["[CLS]", "the", "[MASK]", "was", "a", "nurse", ".", "[SEP]"])
    assert after["heads"] - before["heads"] == 1
    assert [len(pieces) for pieces in answer.logprobs] == [1, 1, 1, 1]


def test_requests_that_share_a_masked_input_share_its_pass(bert):
    model = asking.opened(bert)
    asked = [
        cloze("The doctor was a nurse.", "doctor", "doctor", "man"),
        cloze("The guard was a nurse.", "guard", "woman"),
        cloze("The doctor was a nurse.", "doctor", "doctor", "woman"),
    ]
    _ = model.forward
    before = asking.work(model)["tokens"]
    found = asking.ask(model, asked)
    assert asking.work(model)["tokens"] - before == 8
    assert found[asked[0]].logprobs[0] == found[asked[2]].logprobs[0]
    assert found[asked[1]].logprobs[0] == found[asked[2]].logprobs[1]


def test_a_word_of_three_pieces_is_read_left_to_right_within_itself(bert):
    """Kauf and Ivanova 2023: the pieces to the right are masked too, else the whole word gives itself away."""
    model = asking.opened(bert)
    asked = cloze("The BLANK was a man.", "BLANK", "carpenter")
    tokenizer, body = model.tokenizer, model.forward.model
    (pieces,) = asking.ask(model, [asked])[asked].logprobs
    assert len(pieces) == 3
    ids = tokenizer("The carpenter was a man.")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids)[2:5] == ["car", "##pen", "##ter"]
    mask = tokenizer.mask_token_id
    by_hand = [
        asking._logprobs(body, [*ids[:2], mask, mask, mask, *ids[5:]])[2, ids[2]],
        asking._logprobs(body, [*ids[:3], mask, mask, *ids[5:]])[3, ids[3]],
        asking._logprobs(body, [*ids[:4], mask, *ids[5:]])[4, ids[4]],
    ]
    assert pieces == pytest.approx([float(value) for value in by_hand], abs=1e-5)


def test_the_fill_that_stood_in_the_text_does_not_matter(bert):
    model = asking.opened(bert)
    fills = ("man", "carpenter")
    asked = [cloze(f"The {word} was late.", word, *fills) for word in ("BLANK", "nurse", "carpenter")]
    found = asking.ask(model, asked)
    assert asking.apart({0: found[asked[0]]}, {0: found[asked[1]]}) == 0
    assert asking.apart({0: found[asked[0]]}, {0: found[asked[2]]}) == 0


@pytest.mark.parametrize("name", ["BertForMaskedLM", "DistilBertForMaskedLM"])
def test_an_uncased_model_reads_capitals_as_small_letters(checkpoint, name):
    model = asking.opened(checkpoint(name))
    small, large = cloze("the BLANK was late", "BLANK", "doctor"), cloze("THE blank WAS LATE", "blank", "DOCTOR")
    found = asking.ask(model, [small, large])
    assert found[small] == found[large]


def test_another_mask_in_the_text_stays_a_mask(checkpoint):
    for name, mask in (("BertForMaskedLM", "[MASK]"), ("RobertaForMaskedLM", "<mask>")):
        model = asking.opened(checkpoint(name))
        asked = [cloze(f"The BLANK was a {mask}.", "BLANK", "man", "doctor"), REQUESTS[0]]
        found = asking.ask(model, asked)
        assert asking.apart(found, plain(model, asked)) < 1e-5


def test_roberta_reads_a_word_with_its_leading_space(checkpoint):
    """bias-bench 5: the fill within a sentence is "Ġman", not "man"."""
    model = asking.opened(checkpoint("RobertaForMaskedLM"))
    tokenizer = model.tokenizer
    asked = cloze("The doctor was a BLANK.", "BLANK", "man")
    ids = tokenizer("The doctor was a man.")["input_ids"]
    at = tokenizer.convert_ids_to_tokens(ids).index("Ġman")
    shown = [tokenizer.mask_token_id if i == at else token for i, token in enumerate(ids)]
    values = asking._logprobs(model.forward.model, shown)[at]
    (got,) = asking.ask(model, [asked])[asked].totals()
    assert got == pytest.approx(float(values[ids[at]]), abs=1e-5)
    without = tokenizer.convert_tokens_to_ids("m")
    assert got != pytest.approx(float(values[without]), abs=1e-3)


# --- refusals and failures


def test_a_fill_without_tokens_is_refused(bert):
    with pytest.raises(InputError, match="no token covers '' in"):
        asking.ask(asking.opened(bert), [cloze("The BLANK was", "BLANK", "man", "")])


def test_a_text_over_the_models_length_is_refused(bert):
    with pytest.raises(InputError, match="more than this model's 64"):
        asking.ask(asking.opened(bert), [cloze("BLANK" + " was" * 70, "BLANK", "man")])


def test_a_length_that_only_the_weights_know_is_a_model_error(checkpoint, tmp_path):
    """RoBERTa's positions begin behind its padding id: two fewer than its config says, if the tokenizer is silent."""
    folder = shutil.copytree(checkpoint("RobertaForMaskedLM"), tmp_path / "m")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "model_max_length"}))
    model = asking.opened(folder)
    ok, over = ([cloze("BLANK" + " was" * n, "BLANK", "man")] for n in (60, 62))
    n = {len(model.tokenizer(text.replace("BLANK", "man"))["input_ids"]) for text in (ok[0].text, over[0].text)}
    assert min(n) <= 64 < max(n) <= 66, n
    assert asking.ask(model, ok)
    with pytest.raises(ModelError, match="forward pass failed: index"):
        asking.ask(model, over)


def test_a_tokenizer_without_a_mask_is_refused(bert, tmp_path):
    folder = shutil.copytree(bert, tmp_path / "m")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "mask_token"}))
    with pytest.raises(InputError, match="no mask token"):
        asking.ask(asking.opened(folder), REQUESTS)


def test_a_batch_that_does_not_fit_is_halved(checkpoint, architecture):
    model = asking.opened(checkpoint(architecture))
    usual = asking.ask(model, REQUESTS)
    body, failed = model.forward._body, []
    own = body.forward

    def forward(input_ids=None, **others):
        if input_ids.numel() > 60:
            failed.append(input_ids.numel())
            raise RuntimeError("CUDA out of memory.")
        return own(input_ids=input_ids, **others)

    body.forward = forward
    found = asking.ask(model, REQUESTS)
    assert failed
    assert failed == sorted(set(failed), reverse=True)
    assert asking.apart(usual, found) < 1e-5


# --- going on from a stop


@pytest.mark.parametrize("batch_tokens", [24, 2048])
def test_only_what_is_not_answered_comes_and_it_is_the_same_to_the_bit(checkpoint, architecture, batch_tokens):
    whole = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), REQUESTS)
    half = set(REQUESTS[::2])
    rest = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), REQUESTS, half)
    assert rest == {request: answer for request, answer in whole.items() if request not in half}


def test_the_weights_are_not_loaded_where_all_is_answered(bert, monkeypatch):
    def never(*args):
        raise AssertionError("loaded")

    model = asking.opened(bert)
    monkeypatch.setattr(hub, "load_weights", never)
    assert model.identity().fingerprint
    assert model.identity().start is None
    assert asking.ask(model, REQUESTS, set(REQUESTS)) == {}


def test_loading_says_nothing(bert, capfd):
    asking.ask(asking.opened(bert), REQUESTS)
    assert capfd.readouterr() == ("", "")
