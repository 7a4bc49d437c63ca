"""Causal models: whatever way the forward passes are planned, the answers are those of a plain loop."""

import json
import random
import shutil
from collections import Counter
from contextlib import contextmanager

import asking
import pytest
import tiny
import torch

from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions, hub, load
from evenhand.requests import Continuation, Generate, Sentence, Texts

FOUR = (" female", " woman", " male", " man")
REQUESTS = [
    Continuation("The doctor was a", FOUR),
    Continuation("The nurse was a", FOUR),
    Continuation("The nurse was a", (" man", " carpenter who was late.")),
    Continuation("The plumber met the nurse, the baker and the doctor; she was a", FOUR),
    Continuation("The doctor was a ", ("man", "woman")),
    Continuation("", ("The", "A doctor was", " man")),
    Continuation("The doctor", (" was a man", " was a woman", " was", ".")),
    Sentence("man"),
    Sentence("The doctor was a man."),
    Sentence("The doctor was a woman and the nurse was a man; the plumber was late."),
    Sentence("He was a nurse.", "The doctor was a man."),
    Sentence("é ü", "x"),
    Sentence("The doctor was a man.", start="tokenizer"),
    Sentence("man", start="tokenizer"),
    Sentence("He was a nurse.", "The doctor was a man.", start="tokenizer"),
]
ARCHITECTURES = sorted(tiny.CAUSAL)


@pytest.fixture(params=ARCHITECTURES)
def architecture(request):
    return request.param


@pytest.fixture
def gpt2(checkpoint):
    return checkpoint("GPT2LMHeadModel")


def plain(model, requests):
    return {request: asking.causal(model.forward.model, model.tokenizer, request) for request in requests}


# --- right


def test_answers_are_those_of_a_plain_loop(checkpoint, architecture):
    model = asking.opened(checkpoint(architecture))
    assert model.kind == "causal"
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_the_trials_would_tell_right_from_wrong(checkpoint, architecture):
    """Other contexts give clearly other numbers, so that the comparison above is one."""
    model = asking.opened(checkpoint(architecture))
    found = asking.ask(model, REQUESTS[:2])
    first, second = (found[request] for request in REQUESTS[:2])
    assert max(abs(a - b) for a, b in zip(first.totals(), second.totals(), strict=True)) > 0.01


def test_the_split_and_the_trees_are_in_use(checkpoint, architecture):
    forward = asking.opened(checkpoint(architecture)).forward
    assert forward.trees
    assert forward._body is not None
    assert forward._body is not forward.model


@pytest.mark.parametrize("batch_tokens", [1, 16, 4096])
def test_batch_size_and_order_do_not_matter(checkpoint, architecture, batch_tokens):
    usual = asking.ask(asking.opened(checkpoint(architecture)), REQUESTS)
    shuffled = random.Random(batch_tokens).sample(REQUESTS, len(REQUESTS))
    other = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), shuffled)
    assert asking.apart(usual, other) < 1e-5


def test_what_else_is_asked_does_not_matter(gpt2):
    model = asking.opened(gpt2)
    whole = asking.ask(model, REQUESTS)
    for request in REQUESTS:
        assert asking.apart(asking.ask(model, [request]), {request: whole[request]}) < 1e-5


def test_equal_texts_in_different_requests_agree_and_equal_choices_too(checkpoint):
    model = asking.opened(checkpoint("LlamaForCausalLM"))
    once, twice = Continuation("The doctor was a", (" man",)), Continuation("The doctor was a", (" man", " man"))
    sentence = Sentence("man", "The doctor was a")
    found = asking.ask(model, [once, twice, sentence])
    assert found[twice].logprobs == found[once].logprobs * 2
    assert found[sentence].logprobs == found[once].logprobs
    assert asking.ask(model, [once]) == {once: found[once]}


def test_a_sliding_window_holds_for_texts_longer_than_it(checkpoint):
    """A tree's mask would let every token see all before it; a text over the window must not be read that way."""
    model = asking.opened(checkpoint("Gemma3ForCausalLM"))
    assert model.forward.window == 8
    short = [Continuation("The man", (" was a man", " was the nurse"))]
    long = [Sentence("The doctor was a woman and the nurse was a man; the plumber was late.")]
    assert max(len(path.tokens) for path in model._paths(short)) <= 8 < max(len(p.tokens) for p in model._paths(long))
    for requests in (short, long, short + long):
        assert asking.apart(asking.ask(model, requests), plain(model, requests)) < 1e-5


def test_a_checkpoint_without_a_bos_token_starts_from_eos(tmp_path):
    folder = tiny.save(tmp_path / "m", "GPT2LMHeadModel")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    del config["bos_token"]
    path.write_text(json.dumps(config))
    model = asking.opened(folder)
    assert model.identity().start == "eos"
    asked = [Sentence("The man")]
    with_bos = asking.opened(tiny.save(tmp_path / "n", "GPT2LMHeadModel"))  # where BOS is the same token
    assert with_bos.identity().start == "bos"
    assert asking.apart(asking.ask(model, asked), asking.ask(with_bos, asked)) < 1e-6


def test_a_renamed_folder_is_the_same_model(checkpoint, architecture, tmp_path):
    """bias-bench 11: what a model is called decides nothing."""
    other = tmp_path / "bert-base-uncased-roberta-t5"
    shutil.copytree(checkpoint(architecture), other)
    first, second = asking.opened(checkpoint(architecture)), asking.opened(other)
    assert first.identity().fingerprint == second.identity().fingerprint
    assert (first.identity().ref, second.identity().ref) == (str(checkpoint(architecture)), str(other))
    assert asking.ask(first, REQUESTS) == asking.ask(second, REQUESTS)


@pytest.mark.parametrize("changed", ["weights", "tokenizer", "config", "dtype"])
def test_the_fingerprint_changes_with_whatever_decides_answers(gpt2, tmp_path, changed):
    other, options = shutil.copytree(gpt2, tmp_path / "other"), {}
    if changed == "weights":
        tiny.save(other, "GPT2LMHeadModel", seed=1)
    elif changed == "tokenizer":
        path = other / "tokenizer.json"
        path.write_text(path.read_text().replace('"trim_offsets": false', '"trim_offsets": true'))
    elif changed == "config":
        path = other / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"layer_norm_epsilon": 0.1}))
    else:
        options = {"dtype": "bfloat16"}
    first, second = asking.opened(gpt2).identity(), asking.opened(other, **options).identity()
    assert first.fingerprint != second.fingerprint


def test_bfloat16_is_near_and_says_so(gpt2):
    model = asking.opened(gpt2, dtype="bfloat16")
    assert model.identity().dtype == "bfloat16"
    usual = asking.opened(gpt2)
    assert usual.identity().dtype == "float32"
    assert 0 < asking.apart(asking.ask(model, REQUESTS[:2]), asking.ask(usual, REQUESTS[:2])) < 0.5


# --- where the quick ways are wrong


def test_a_model_that_does_not_take_the_trees_mask_gets_chains(gpt2, monkeypatch):
    from transformers import GPT2Model

    own = GPT2Model.forward

    def deaf(self, input_ids=None, attention_mask=None, position_ids=None, **others):
        if attention_mask is not None and attention_mask.dim() == 4:
            attention_mask = position_ids = None
        return own(self, input_ids, attention_mask=attention_mask, position_ids=position_ids, **others)

    monkeypatch.setattr(GPT2Model, "forward", deaf)
    model = asking.opened(gpt2)
    assert not model.forward.trees
    assert model.forward._body is not None
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_a_model_that_refuses_the_trees_mask_gets_chains(gpt2, monkeypatch):
    from transformers import GPT2Model

    own = GPT2Model.forward

    def picky(self, input_ids=None, attention_mask=None, **others):
        if attention_mask is not None and attention_mask.dim() == 4:
            raise ValueError("an attention mask has two dimensions")
        return own(self, input_ids, attention_mask=attention_mask, **others)

    monkeypatch.setattr(GPT2Model, "forward", picky)
    model = asking.opened(gpt2)
    assert not model.forward.trees
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_a_head_that_looks_at_the_input_is_not_split_off(gpt2, monkeypatch):
    from transformers import GPT2LMHeadModel

    own = GPT2LMHeadModel.forward

    def copying(self, input_ids=None, **others):
        output = own(self, input_ids, **others)
        output.logits = output.logits + 3 * torch.nn.functional.one_hot(input_ids, output.logits.shape[-1])
        return output

    monkeypatch.setattr(GPT2LMHeadModel, "forward", copying)
    model = asking.opened(gpt2)
    assert model.forward._body is None
    assert model.forward.trees
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_neither_quick_way_still_answers_right(checkpoint, architecture, monkeypatch):
    from evenhand.models.forward import Forward

    monkeypatch.setattr(Forward, "_agrees", lambda self, rows, want: False)
    model = asking.opened(checkpoint(architecture), batch_tokens=64)
    assert (model.forward.trees, model.forward._body) == (False, None)
    assert asking.apart(asking.ask(model, REQUESTS), plain(model, REQUESTS)) < 1e-5


def test_a_forward_that_fails_is_a_model_error(gpt2):
    model = asking.opened(gpt2)

    def broken(*args, **options):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied\nmore")

    model.forward._body.forward = broken
    with pytest.raises(ModelError, match=r"forward pass failed: mat1 and mat2 shapes cannot be multiplied$"):
        asking.ask(model, REQUESTS)


# --- memory


FULL = RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")


@contextmanager
def little_memory(model, limit, error=FULL):
    """The model's body fails above `limit` padded tokens; yields the sizes that failed."""
    body, failed = model.forward._body, []
    own = body.forward

    def forward(input_ids=None, **others):
        if input_ids.numel() > limit:
            failed.append(input_ids.numel())
            raise error
        return own(input_ids=input_ids, **others)

    body.forward = forward
    yield failed
    del body.forward


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "windows", "torch", "python"],
)
def test_a_batch_that_does_not_fit_is_halved(checkpoint, error):
    model = asking.opened(checkpoint("LlamaForCausalLM"), batch_tokens=4096)
    model.forward.trees = False  # one row per text
    asked = [Sentence(letter * n) for letter in "abcdefgh" for n in (14, 15)]
    usual = asking.ask(model, asked)
    with little_memory(model, 40, error) as failed:
        found = asking.ask(model, asked)
    assert failed
    assert asking.apart(usual, found) < 1e-5
    assert failed == sorted(set(failed), reverse=True), "a size that failed is never tried again"


def test_later_batches_are_split_before_they_fail(gpt2):
    model = asking.opened(gpt2, batch_tokens=60)
    model.forward.trees = False
    asked = [Sentence(letter * n) for letter in "bcdfg" for n in (3, 7, 11, 20)]
    with little_memory(model, 45) as failed:
        asking.ask(model, asked)
        once = len(failed)
        asking.ask(model, asked)
    assert once >= 1
    assert len(failed) == once
    assert failed == sorted(set(failed), reverse=True)


def test_one_row_that_does_not_fit_is_an_error_that_says_what_to_do(gpt2):
    model = asking.opened(gpt2)
    with little_memory(model, 3), pytest.raises(ModelError, match=r"one row of \d+ tokens; a smaller --batch-tokens"):
        asking.ask(model, REQUESTS)


def test_a_text_over_the_models_length_is_refused_before_anything_runs(gpt2):
    model = asking.opened(gpt2)
    with pytest.raises(InputError, match="more than this model's 64"):
        asking.ask(model, [Sentence("x" * 100)])


def test_a_prompt_without_room_for_what_is_to_follow_is_refused(gpt2):
    model = asking.opened(gpt2)
    assert len(asking.ask(model, [Generate("x" * 60, 1, 4, 0)])) == 1
    with pytest.raises(InputError, match="60 tokens and 5 new ones are more than this model's 64"):
        asking.ask(model, [Generate("x" * 60, 1, 5, 0)])


# --- work


def test_the_body_runs_once_per_context_and_the_head_only_where_it_is_read(checkpoint):
    model = asking.opened(checkpoint("LlamaForCausalLM"))
    asked = [Continuation(f"The {who} was a", FOUR) for who in ("doctor", "nurse")]
    paths = model._paths(asked)
    beginnings = {path.tokens[:n] for path in paths for n in range(1, len(path.tokens))}
    reads = {path.tokens[:n] for path in paths for n in range(path.start, len(path.tokens))}
    _ = model.forward
    before = asking.work(model)
    asking.ask(model, asked)
    after = asking.work(model)
    assert after["passes"] - before["passes"] == 1
    assert after["tokens"] - before["tokens"] == len(beginnings)
    assert after["heads"] - before["heads"] == len(reads)
    assert after["padding"] == before["padding"]


def test_padding_is_counted_apart(gpt2):
    model = asking.opened(gpt2)
    model.forward.trees = False
    before = asking.work(model)
    asking.ask(model, [Sentence("x" * 12), Sentence("z" * 11)])
    after = asking.work(model)
    assert after["tokens"] - before["tokens"] == 12 + 11
    assert after["padding"] - before["padding"] == 1


# --- going on from a stop


@pytest.mark.parametrize("batch_tokens", [24, 2048])
def test_only_what_is_not_answered_comes_and_it_is_the_same_to_the_bit(checkpoint, architecture, batch_tokens):
    asked = [*REQUESTS, Generate("The doctor", 2, 3, 1), Generate("The nurse", 2, 3, 1)]
    whole = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), asked)
    half = set(asked[::2])
    rest = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), asked, half)
    assert rest == {request: answer for request, answer in whole.items() if request not in half}


def test_batches_that_are_answered_are_not_forwarded(gpt2):
    model = asking.opened(gpt2, batch_tokens=24)
    batches = [[request for request, _ in batch] for batch in model.answer(REQUESTS, ())]
    assert len(batches) > 2
    everything = asking.work(model)["passes"]
    again = asking.opened(gpt2, batch_tokens=24)
    asking.ask(again, REQUESTS, {request for batch in batches[:-1] for request in batch})
    assert asking.work(again)["passes"] < everything


def test_the_weights_are_not_loaded_where_all_is_answered(gpt2, monkeypatch):
    def never(*args):
        raise AssertionError("loaded")

    model = asking.opened(gpt2)
    monkeypatch.setattr(hub, "load_weights", never)
    asked = [*REQUESTS, Generate("The doctor", 2, 3, 1)]
    assert model.identity().fingerprint
    assert asking.ask(model, asked, set(asked)) == {}
    assert asking.ask(model, []) == {}
    with pytest.raises(AssertionError, match="loaded"):
        asking.ask(model, asked, set(REQUESTS))


# --- samples


def test_samples_are_seeded_by_the_request_alone(gpt2):
    asked = Generate("The doctor was a", 4, 6, 7)
    first = asking.ask(asking.opened(gpt2), [asked])[asked]
    others = [*REQUESTS, Generate("He", 2, 3, 7), asked]
    torch.manual_seed(99)
    state = torch.get_rng_state()
    second = asking.ask(asking.opened(gpt2), others)[asked]
    assert isinstance(first, Texts)
    assert first == second
    assert torch.equal(state, torch.get_rng_state()), "the caller's own random numbers are left alone"


def test_samples_differ_by_prompt_seed_and_among_themselves(gpt2):
    model = asking.opened(gpt2)
    asked = [
        Generate("The doctor was a", 4, 6, 7),
        Generate("The nurse was a", 4, 6, 7),
        Generate("The doctor was a", 4, 6, 8),
    ]
    found = asking.ask(model, asked)
    assert len({found[request] for request in asked}) == 3
    assert len(set(found[asked[0]].texts)) > 1


@pytest.mark.parametrize("samples", [1, 5])
def test_there_are_as_many_samples_as_asked_without_the_prompt(checkpoint, architecture, samples):
    model = asking.opened(checkpoint(architecture))
    prompt = "The doctor met the professor, who was a"
    (answer,) = asking.ask(model, [Generate(prompt, samples, 4, 0)]).values()
    assert len(answer.texts) == samples
    for text in answer.texts:
        assert "professor, who" not in text
        assert len(model.tokenizer(text, add_special_tokens=False)["input_ids"]) <= 12


def distribution(model, samples=3000):
    """How far the share of each first token is from its probability, over all tokens that show as themselves."""
    tokenizer = model.tokenizer
    (answer,) = asking.ask(model, [Generate("The doctor was a", samples, 1, 3)]).values()
    ids = torch.tensor([tokenizer("The doctor was a")["input_ids"]])
    with torch.no_grad():
        chances = model.forward.model(ids).logits[0, -1].double().softmax(-1)
    shown = Counter(answer.texts)
    wanted = Counter()
    for token, chance in enumerate(chances.tolist()):
        wanted[tokenizer.decode([token], skip_special_tokens=True)] += chance
    return sum(abs(shown[text] / samples - chance) for text, chance in wanted.items()) / 2


def test_samples_are_drawn_from_the_whole_distribution(gpt2):
    assert distribution(asking.opened(gpt2)) < 0.08


def test_a_failure_while_sampling_is_a_model_error(gpt2):
    model = asking.opened(gpt2)
    with (
        little_memory(model, 3),
        pytest.raises(ModelError, match="failed to continue 'The doctor': CUDA out of memory"),
    ):
        asking.ask(model, [Generate("The doctor", 9, 3, 0)])


def test_settings_that_come_with_a_checkpoint_do_not_bend_the_samples(gpt2, tmp_path):
    folder = shutil.copytree(gpt2, tmp_path / "bent")
    path = folder / "generation_config.json"
    bent = {"do_sample": True, "temperature": 0.2, "top_k": 2, "top_p": 0.5, "repetition_penalty": 9.0, "min_p": 0.4,
            "no_repeat_ngram_size": 1, "max_length": 7, "num_beams": 3}  # fmt: skip
    path.write_text(json.dumps(json.loads(path.read_text()) | bent))
    asked = Generate("The doctor was a", 4, 6, 7)
    assert asking.ask(asking.opened(folder), [asked]) == asking.ask(asking.opened(gpt2), [asked])


def test_loading_says_nothing(gpt2, capfd):
    asking.ask(asking.opened(gpt2), [*REQUESTS[:2], Generate("The doctor", 2, 3, 1)])
    assert capfd.readouterr() == ("", "")


def test_a_kind_in_front_of_the_folder_is_the_same_model(gpt2):
    asked = REQUESTS[:2]
    forced = load(f"causal:{gpt2}", LoadOptions(device="cpu"))
    assert asking.ask(forced, asked) == asking.ask(asking.opened(gpt2), asked)
