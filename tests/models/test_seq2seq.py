"""Encoder-decoder and causal models on StereoSet's requests against plain loops: one sequence at a time."""

import json
import math
import random
import shutil

import asking
import pytest
import tiny
import torch

from evenhand.data.stereoset import LABELS, Example
from evenhand.data.stereoset import Sentence as Option
from evenhand.errors import InputError
from evenhand.requests import Cloze, Sentence
from evenhand.tasks import form_for
from evenhand.tasks.stereoset import TASK

T5 = "T5ForConditionalGeneration"
SENTENCES = ("The doctor was a man.", "The doctor was a woman.", "The doctor was a carpenter.")
FOLLOWING = ("She was late.", "He was a carpenter.", "Town, town the.")


def item(context, texts, form):
    options = tuple(Option(f"s{k}", text, label) for k, (text, label) in enumerate(zip(texts, LABELS, strict=True)))
    return Example("e0", "doctor", "gender", context, form, options)


INTRA = item("The doctor was a BLANK.", SENTENCES, "intrasentence")
INTER = [item(context, FOLLOWING, "intersentence") for context in ("The doctor was a woman.", "The nurse was a man.")]


def scores(model, example, **options):
    """The task's three scores, through ask, answer and read."""
    chosen = TASK.options(**options)
    form = form_for(TASK.card, model.supports)
    asked = TASK.ask(example, chosen, form, seed=0)
    answers = asking.ask(model, list(dict.fromkeys(asked)))
    record = TASK.read(example, chosen, form, [answers[request] for request in asked])
    return [record["score_stereotype"], record["score_anti_stereotype"], record["score_unrelated"]]


def mean(values):
    return sum(values) / len(values)


# --- T5


def blank(text, *fills, rule="word", word="BLANK"):
    start = text.index(word)
    return Cloze(text, (start, start + len(word)), fills, rule)


T5_REQUESTS = [
    blank("The doctor was a BLANK.", "man", "woman", "carpenter"),
    blank("BLANK doctor was late.", "The", "A"),
    blank("The (BLANK), said the man; was late.", "plumber", "doctor", rule="alone"),
    blank("The doctor was a BLANK.", "man", rule="alone-bare"),
    *(Sentence(text, context) for context in ("The doctor was a woman.", "The nurse was a man.") for text in FOLLOWING),
    *(Sentence(text) for text in SENTENCES),
    Sentence("man"),
]


@torch.no_grad()
def decoded(model, source, target):
    """log P of each of the target's tokens behind the sentinel or the start, one forward pass; by transformers."""
    body, begin = model.forward.model, 0
    output = body(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[begin, *target]]))
    values = torch.log_softmax(output.logits[0].double(), -1)
    return [float(values[i, token]) for i, token in enumerate(target)]


def plain(model, request):
    """What the decoder says: pieces behind the sentinel, or a sentence behind the context that the encoder has read."""
    tokenizer = model.tokenizer
    sentinel = tokenizer.convert_tokens_to_ids("<extra_id_0>")

    def pieces(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    if isinstance(request, Sentence):
        source = tokenizer(request.context)["input_ids"]
        assert source[-1] == tokenizer.eos_token_id
        return (tuple(decoded(model, source, pieces(request.text))),)
    start, end = request.span
    source = tokenizer(request.text[:start] + "<extra_id_0>" + request.text[end:])["input_ids"]
    assert source.count(sentinel) == 1
    return tuple(tuple(decoded(model, source, [sentinel, *pieces(fill)])[1:]) for fill in request.fills)


def close(found, want, rel=1e-5):
    assert [len(x) for x in found] == [len(x) for x in want]
    for got, expected in zip(found, want, strict=True):
        assert got == pytest.approx(expected, rel=rel)


def test_t5_fills_behind_the_sentinel_and_sentences_behind_their_context(checkpoint):
    model = asking.opened(checkpoint(T5))
    found = asking.ask(model, T5_REQUESTS)
    for request in T5_REQUESTS:
        close(found[request].logprobs, plain(model, request))


def test_eos_is_never_read(checkpoint):
    """lm-eval 1017: as many values as the text has tokens, the end not among them."""
    model = asking.opened(checkpoint(T5))
    text = "The doctor was a carpenter."
    n = len(model.tokenizer(text, add_special_tokens=False)["input_ids"])
    for request in (Sentence(text), Sentence(text, "He was late."), blank("BLANK", text)):
        assert [len(values) for values in asking.ask(model, [request])[request].logprobs] == [n]


@pytest.mark.parametrize("batch_tokens", [1, 40, 4096])
def test_batches_and_order_do_not_matter(checkpoint, batch_tokens):
    usual = asking.ask(asking.opened(checkpoint(T5)), T5_REQUESTS)
    mixed = random.Random(batch_tokens).sample(T5_REQUESTS, len(T5_REQUESTS))
    assert asking.apart(usual, asking.ask(asking.opened(checkpoint(T5), batch_tokens=batch_tokens), mixed)) < 1e-5


@pytest.mark.parametrize("architecture", [T5, "BartForConditionalGeneration"])
@pytest.mark.parametrize("batch_tokens", [40, 4096])
def test_half_answered_goes_on_to_the_same_bits(checkpoint, architecture, batch_tokens):
    whole = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), T5_REQUESTS)
    half = set(T5_REQUESTS[::2])
    rest = asking.ask(asking.opened(checkpoint(architecture), batch_tokens=batch_tokens), T5_REQUESTS, half)
    assert rest == {request: answer for request, answer in whole.items() if request not in half}
    assert asking.ask(asking.opened(checkpoint(architecture)), T5_REQUESTS, set(T5_REQUESTS)) == {}


def test_a_tokenizer_without_a_sentinel_fills_no_blanks(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(T5), tmp_path / "m")
    tiny.t5().save_pretrained(folder)
    model = asking.opened(folder)
    with pytest.raises(InputError, match="no sentinel <extra_id_0>, so it fills no blanks"):
        asking.ask(model, T5_REQUESTS[:1])
    assert asking.ask(model, [Sentence("The man.", "He was late.")])


def test_a_config_that_leaves_the_decoders_start_open_starts_from_padding(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(T5), tmp_path / "m")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder_start_token_id": None}))
    request = Sentence("The man.", "He was late.")
    assert asking.ask(asking.opened(folder), [request]) == asking.ask(asking.opened(checkpoint(T5)), [request])


@pytest.mark.parametrize("architecture", [T5, "BartForConditionalGeneration", "GPT2LMHeadModel"])
def test_a_renamed_folder_gives_the_same_scores(checkpoint, architecture, tmp_path):
    other = shutil.copytree(checkpoint(architecture), tmp_path / "bert-roberta-xlnet")
    first, second = asking.opened(checkpoint(architecture)), asking.opened(other)
    for example in (INTRA, *INTER):
        assert scores(first, example) == scores(second, example)


def test_stereoset_on_t5(checkpoint):
    model = asking.opened(checkpoint(T5))
    fills = plain(model, blank("The doctor was a BLANK.", "man", "woman", "carpenter"))
    assert scores(model, INTRA) == pytest.approx([mean([math.exp(v) for v in fill]) for fill in fills], rel=1e-5)
    assert scores(model, INTRA, method="corrected") == pytest.approx([mean(fill) for fill in fills], rel=1e-5)
    for example in INTER:
        want = [mean(plain(model, Sentence(text, example.context))[0]) for text in FOLLOWING]
        assert scores(model, example) == pytest.approx(want, rel=1e-5)
    first, second = (scores(model, example) for example in INTER)
    assert all(abs(a - b) > 1e-4 for a, b in zip(first, second, strict=True)), "the context counts"


def test_two_blanks_are_one_sentinel_in_the_authors_reading(checkpoint):
    model = asking.opened(checkpoint(T5))
    text = "The BLANK was late and the BLANK was not."
    asked = Cloze(text, (4, 9), ("man",), "alone")
    sentinel = model.tokenizer.convert_tokens_to_ids("<extra_id_0>")
    source = model.tokenizer("The <extra_id_0> was late and the  was not.")["input_ids"]
    pieces = model.tokenizer("man", add_special_tokens=False)["input_ids"]
    close(asking.ask(model, [asked])[asked].logprobs, [decoded(model, source, [sentinel, *pieces])[1:]])


# --- causal models


@torch.no_grad()
def causal(model, ids, start):
    """log P of the tokens from `start` on, each given all before it, one pass."""
    values = torch.log_softmax(model.forward.model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
    return [float(values[i - 1, ids[i]]) for i in range(start, len(ids))]


def gpt2_tokenizer_start(model, text):
    """The first token behind the start token alone; the others from the text's own tokens, without it."""
    ids = model.tokenizer(text)["input_ids"]
    return causal(model, [model.tokenizer.eos_token_id, ids[0]], 1) + causal(model, ids, 1)


def started_once(model, text):
    """Every token behind the start token."""
    ids = model.tokenizer(text)["input_ids"]
    bos = model.tokenizer.bos_token_id
    return causal(model, ids if ids[0] == bos else [bos, *ids], 1)


@pytest.mark.parametrize("text", ["man", "The doctor was a carpenter.", "."])
def test_gpt2_reads_its_first_token_from_the_start_and_the_rest_without_it(checkpoint, text):
    model = asking.opened(checkpoint("GPT2LMHeadModel"))
    assert model.tokenizer.bos_token_id == model.tokenizer.eos_token_id
    asked = [Sentence(text, start="tokenizer"), Sentence(text)]
    found = asking.ask(model, asked)
    close(found[asked[0]].logprobs, [gpt2_tokenizer_start(model, text)])
    close(found[asked[1]].logprobs, [started_once(model, text)])
    if len(model.tokenizer(text)["input_ids"]) > 1:
        assert found[asked[0]] != found[asked[1]]
        assert found[asked[0]].logprobs[0][0] == pytest.approx(found[asked[1]].logprobs[0][0], rel=1e-5)


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "Gemma3ForCausalLM"])
@pytest.mark.parametrize("text", ["man", "The doctor was a carpenter."])
def test_llama_and_gemma_start_from_bos_once_either_way(checkpoint, architecture, text):
    """lm-eval 1465 and 3430."""
    model = asking.opened(checkpoint(architecture))
    ids = model.tokenizer(text)["input_ids"]
    assert ids.count(model.tokenizer.bos_token_id) == 1
    asked = [Sentence(text, start="tokenizer"), Sentence(text)]
    found = asking.ask(model, asked)
    close(found[asked[0]].logprobs, [causal(model, ids, 1)])
    assert asking.apart({0: found[asked[0]]}, {0: found[asked[1]]}) < 1e-5


@pytest.mark.parametrize(
    ("architecture", "loop"),
    [
        ("GPT2LMHeadModel", gpt2_tokenizer_start),
        ("LlamaForCausalLM", started_once),
        ("Gemma3ForCausalLM", started_once),
    ],
)
def test_stereoset_on_causal_models_is_two_to_the_mean_log(checkpoint, architecture, loop):
    model = asking.opened(checkpoint(architecture))
    two = [2 ** mean([value / math.log(2) for value in loop(model, text)]) for text in SENTENCES]
    assert scores(model, INTRA) == pytest.approx(two, rel=1e-5)
    logs = [mean(started_once(model, text)) for text in SENTENCES]
    assert scores(model, INTRA, method="corrected") == pytest.approx(logs, rel=1e-5)
    word = item("BLANK", ("man", "The", "nurse"), "intrasentence")
    assert scores(model, word) == pytest.approx([math.exp(mean(loop(model, s.text))) for s in word.sentences], rel=1e-5)


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "LlamaForCausalLM", "Gemma3ForCausalLM"])
@pytest.mark.parametrize("method", ["reference", "corrected"])
def test_a_sentence_is_scored_in_its_context(checkpoint, architecture, method):
    """Mean log P(sentence tokens | context); the start token is in front where the method or the tokenizer has it."""
    model = asking.opened(checkpoint(architecture))
    tokenizer = model.tokenizer
    for example in INTER:
        want = []
        for text in FOLLOWING:
            ids, n = tokenizer(f"{example.context} {text}")["input_ids"], len(tokenizer(example.context)["input_ids"])
            if method == "corrected" and ids[0] != tokenizer.bos_token_id:
                ids, n = [tokenizer.bos_token_id, *ids], n + 1
            want.append(mean(causal(model, ids, n)))
        assert scores(model, example, method=method) == pytest.approx(want, rel=1e-5)
    first, second = (scores(model, example, method=method) for example in INTER)
    assert all(abs(a - b) > 1e-4 for a, b in zip(first, second, strict=True)), "the context counts"


@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_batches_and_half_answered_sentences_of_both_starts(checkpoint, batch_tokens):
    asked = [
        Sentence(text, start=start) for text in (*SENTENCES, *FOLLOWING, "man") for start in ("always", "tokenizer")
    ]
    usual = asking.ask(asking.opened(checkpoint("GPT2LMHeadModel")), asked)
    whole = asking.ask(asking.opened(checkpoint("GPT2LMHeadModel"), batch_tokens=batch_tokens), asked)
    assert asking.apart(usual, whole) < 1e-5
    half = set(asked[::3])
    rest = asking.ask(asking.opened(checkpoint("GPT2LMHeadModel"), batch_tokens=batch_tokens), asked, half)
    assert rest == {request: answer for request, answer in whole.items() if request not in half}
