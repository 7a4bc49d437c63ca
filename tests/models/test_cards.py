"""What only a GPU does, as far as a machine without one can tell: sizes, memory, layouts, plans without weights."""

import sys
from dataclasses import replace

import pytest
import torch
from asking import apart, ask, opened

from evenhand.errors import InputError, ModelError
from evenhand.models import BATCH_TOKENS, LoadOptions, cards, hub
from evenhand.models.forward import MAX_TOKENS, MIN_TOKENS, Forward, fitting
from evenhand.models.steps import Facts
from evenhand.requests import Classify, Continuation, Embed, Generate, NextSentence, Sentence

CARD = torch.device("cuda")
TEXTS = tuple(f"{'very ' * (i % 5)}late word {i}" for i in range(12))
REQUESTS = [Continuation(f"The {text} was a", (" man", " woman")) for text in TEXTS]


@pytest.fixture
def free(monkeypatch):
    """A card with so many bytes free."""

    def set_free(amount):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (amount, 2 * amount))

    return set_free


def test_a_models_size_is_that_of_its_weights_in_the_dtype_asked_for(checkpoint):
    found = hub.locate(str(checkpoint("GPT2LMHeadModel")), LoadOptions())
    whole = sum(path.stat().st_size for path in found.folder.glob("*.safetensors"))
    assert cards.size(found, LoadOptions(), torch.float32) == whole
    assert cards.size(found, LoadOptions(), torch.bfloat16) == whole // 2


def test_a_model_is_too_large_for_a_card_that_has_no_room_for_it_unless_the_card_was_named(checkpoint, free):
    found = hub.locate(str(checkpoint("GPT2LMHeadModel")), LoadOptions())
    bytes_ = cards.size(found, LoadOptions(), torch.float32)
    free(bytes_)  # the weights alone would fill it
    assert cards.too_large(found, LoadOptions(), torch.float32, CARD)
    assert not cards.too_large(found, LoadOptions(), torch.bfloat16, CARD)
    assert not cards.too_large(found, LoadOptions(), torch.float32, torch.device("cuda:0"))
    assert not cards.too_large(found, LoadOptions(), torch.float32, torch.device("cpu"))
    free(2 * bytes_)
    assert not cards.too_large(found, LoadOptions(), torch.float32, CARD)


def test_a_layout_needs_accelerate(checkpoint, monkeypatch):
    found = hub.locate(str(checkpoint("GPT2LMHeadModel")), LoadOptions())
    assert cards.layout(found) == "auto"
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(InputError, match=r"larger than one card; .* pip install accelerate"):
        cards.layout(found)


def test_weights_are_laid_out_by_a_device_map(checkpoint):
    found = hub.locate(str(checkpoint("GPT2LMHeadModel")), LoadOptions())
    model = hub.load_weights(found, "causal", torch.float32, {"": "cpu"}, LoadOptions())
    assert {str(weight.device) for weight in model.parameters()} == {"cpu"} and not model.training


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM"])
def test_a_model_in_accelerates_hooks_reads_as_the_plain_one(checkpoint, architecture, tmp_path):
    from accelerate import dispatch_model

    requests = REQUESTS if "Causal" in architecture or "GPT2" in architecture else [Sentence(t) for t in TEXTS]
    plain, hooked = opened(checkpoint(architecture)), opened(checkpoint(architecture))
    weights = hub.load_weights(hooked.found, hooked.kind, torch.float32, torch.device("cpu"), LoadOptions())
    parts = [name for name, module in weights.named_modules() if name.count(".") == 0 and name]
    laid = dispatch_model(
        weights, dict.fromkeys(parts, "cpu"), main_device="cpu", offload_dir=tmp_path, force_hooks=True
    )
    hooked.forward = Forward(laid, pad=hooked.pad, work=hooked.work, reading=hooked.reading)
    assert hooked.forward._body is not None  # the head still runs only where it is read
    assert apart(ask(plain, requests), ask(hooked, requests)) < 1e-6


def test_tokens_in_a_pass_are_a_power_of_two_by_the_memory_that_is_free():
    assert fitting(1 << 34, 1 << 20) == 8192
    assert fitting((1 << 34) + 5, 1 << 20) == 8192
    assert fitting((1 << 34) - 5, 1 << 20) == 4096
    assert fitting(1, 1e9) == MIN_TOKENS
    assert fitting(1 << 60, 1.0) == MAX_TOKENS


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "BertForMaskedLM", "T5ForConditionalGeneration"])
def test_a_small_pass_tells_how_large_one_may_be(checkpoint, architecture, monkeypatch, free):
    model = opened(checkpoint(architecture))
    free(1 << 30)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1000 + 4096 * 2**17)
    assert model.forward.fitting == 4096


def test_pairs_that_do_not_fit_in_memory_are_halved(checkpoint, monkeypatch):
    requests = [NextSentence(first="A man.", second=text) for text in TEXTS]
    plain, full = (opened(checkpoint("BertForPreTraining")) for _ in range(2))
    sizes, whole = [], full._is_next

    def small(encoded):
        sizes.append(len(encoded))
        if len(encoded) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate more")
        return whole(encoded)

    monkeypatch.setattr(full, "_is_next", small)
    assert apart(ask(plain, requests), ask(full, requests)) < 1e-6
    assert max(sizes) > 2 and min(sizes) <= 2
    monkeypatch.setattr(full, "_is_next", lambda encoded: 1 / 0 if not encoded else small([*encoded] * 9))
    with pytest.raises(ModelError, match="the next-sentence head failed: CUDA out of memory"):
        ask(full, requests)


def test_the_next_sentence_head_is_read_in_full_precision(checkpoint):
    model = opened(checkpoint("BertForPreTraining"), dtype="bfloat16")
    assert model._head.dtype == torch.float32 and model.forward.model.dtype == torch.bfloat16


def test_without_a_card_a_pass_is_small_and_a_number_asked_for_is_kept(checkpoint):
    assert opened(checkpoint("GPT2LMHeadModel")).batch_tokens == BATCH_TOKENS
    assert opened(checkpoint("GPT2LMHeadModel"), batch_tokens=77).batch_tokens == 77


# Plans


def shape(steps):
    return [(step.what, step.serves, step.tokens, [list(row.tokens) for row in step.load]) for step in steps]


def test_a_plan_made_from_facts_alone_is_the_plan_and_loads_no_weights(checkpoint):
    one, other = (opened(checkpoint("GPT2LMHeadModel"), batch_tokens=64) for _ in range(2))
    other.told = one.facts
    assert other.told == Facts(trees=True, window=None, batch_tokens=64)
    assert shape(other.steps(REQUESTS)) == shape(one.steps(REQUESTS))
    assert "forward" not in vars(other)
    other.told = replace(one.facts, trees=False)
    assert shape(other.steps(REQUESTS)) != shape(one.steps(REQUESTS))


def test_steps_done_by_another_copy_in_any_order_give_the_same_answers(checkpoint):
    from evenhand.models.steps import Gathering

    one, other = (opened(checkpoint("GPT2LMHeadModel"), batch_tokens=64) for _ in range(2))
    requests = [*REQUESTS, *(Embed(text) for text in TEXTS), Generate("The man", 2, 3, 0)]
    steps = list(one.steps(requests))
    assert len({step.what for step in steps}) == 3 and len(steps) > 5
    gathering = Gathering(requests, {})
    got = dict(pair for step in reversed(steps) for pair in gathering.add(step, other.do(step)))
    assert got == ask(one, requests)


@pytest.mark.parametrize(
    ("architecture", "requests"),
    [
        ("GPT2LMHeadModel", [Continuation(f"{i} {r.context}", r.choices) for i in range(9) for r in REQUESTS]),
        ("GPT2LMHeadModel", [Embed(text) for text in TEXTS]),
        ("BertForPreTraining", [NextSentence(first="A man.", second=text) for text in TEXTS]),
        ("BertForMaskedLM", [Classify(texts=TEXTS * 8, labels=(0, 1) * 48, queries=TEXTS, epochs=3)]),
    ],
)
def test_a_smaller_step_is_less_of_the_same_work(checkpoint, architecture, requests):
    model = opened(checkpoint(architecture))
    step = max(map(model.counted, model.steps(requests)), key=lambda step: step.tokens)
    less = model.smaller(step, step.tokens // 4)
    assert less.what == step.what and less.tokens < step.tokens
    model.do(less)
    if step.what != "train":
        assert model.smaller(step, step.tokens).tokens == step.tokens
