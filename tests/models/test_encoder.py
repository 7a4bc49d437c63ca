"""Vectors of texts: against transformers, one text at a time."""

import asking
import numpy as np
import pytest
import torch
import transformers

from evenhand.errors import InputError, ModelError
from evenhand.folder import RunFolder
from evenhand.models import LoadOptions, hub, load
from evenhand.models.packaged import PACKAGED
from evenhand.requests import Embed, Vector, dump, parse

CPU = LoadOptions(device="cpu")
TEXTS = [
    "The doctor was a woman.",
    "He was a nurse, she was a plumber and the lawyer in town was late; he was not.",
    "a",
    "The professor was a man, the carpenter was a woman, the dancer was female.",
    "",
]


def vectors(model, requests):
    return {request: np.array(answer.values) for request, answer in asking.ask(model, requests).items()}


def plain(folder, request):
    """The same by transformers alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    body = transformers.AutoModel.from_pretrained(folder).eval()
    ids = tokenizer(request.text)["input_ids"] or [tokenizer.bos_token_id]
    with torch.no_grad():
        hidden = body(torch.tensor([ids])).last_hidden_state[0]
    return (hidden[0] if request.pooling == "first" else hidden.mean(0)).numpy()


@pytest.mark.parametrize("kind", ["", "encoder:"])
@pytest.mark.parametrize(
    "architecture", ["BertForMaskedLM", "RobertaForMaskedLM", "GPT2LMHeadModel", "LlamaForCausalLM"]
)
def test_a_vector_is_the_mean_of_last_hidden_states_or_the_first(checkpoint, architecture, kind):
    folder = checkpoint(architecture)
    model = load(f"{kind}{folder}", CPU)
    assert Embed in model.supports
    requests = [Embed(text, pooling) for text in TEXTS for pooling in ("mean", "first")]
    for request, found in vectors(model, requests).items():
        np.testing.assert_allclose(found, plain(folder, request), atol=2e-6)


def test_batches_do_not_move_a_vector(checkpoint):
    folder = checkpoint("BertForMaskedLM")
    requests = [Embed(text) for text in TEXTS]
    one, all_of = (
        vectors(load(f"encoder:{folder}", LoadOptions(device="cpu", batch_tokens=n)), requests) for n in (1, 4096)
    )
    for request in requests:
        np.testing.assert_allclose(one[request], all_of[request], atol=1e-5)


def test_a_run_that_goes_on_gives_the_same_digits(checkpoint):
    requests = [Embed(f"{text} {i}") for i in range(6) for text in TEXTS]
    model = load(f"encoder:{checkpoint('BertForMaskedLM')}", CPU)
    whole = asking.ask(model, requests)
    passes = model.work.passes
    rest = {request: answer for batch in model.answer(requests, set(requests[::2])) for request, answer in batch}
    assert rest == {request: whole[request] for request in requests[1::2]}
    assert list(model.answer(requests, set(requests))) == [] and model.work.passes <= 2 * passes


def test_a_text_that_is_too_long_is_cut_and_not_told(checkpoint):
    model = load(f"encoder:{checkpoint('BertForMaskedLM')}", CPU)
    limit = min(model.found.config["max_position_embeddings"], model.tokenizer.model_max_length)
    (tokens,) = model.encoder.cut(["nurse " * 1000])
    assert len(tokens) == limit and tokens[-1] == model.encoder.suffix[0]
    assert asking.ask(model, [Embed("nurse " * 1000)])


def test_vectors_are_made_by_halves_where_memory_is_short(checkpoint, monkeypatch):
    model = load(f"encoder:{checkpoint('BertForMaskedLM')}", CPU)
    requests = [Embed(f"the nurse {i}") for i in range(8)]
    whole = vectors(model, requests)
    run = model.forward._body.forward

    def small(*args, **inputs):
        if len(inputs["input_ids"]) > 2:
            raise RuntimeError("CUDA out of memory")
        return run(*args, **inputs)

    monkeypatch.setattr(model.forward._body, "forward", small)
    for request, found in vectors(model, requests).items():
        np.testing.assert_allclose(found, whole[request], atol=1e-5)


def test_a_vector_that_is_not_finite_is_an_error_without_the_text(checkpoint):
    model = load(f"encoder:{checkpoint('BertForMaskedLM')}", CPU)
    with torch.no_grad():
        model.forward.model.embeddings.word_embeddings.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite") as caught:
        asking.ask(model, [Embed("lighthouse")])
    assert "lighthouse" not in str(caught.value)


def test_a_body_without_weights_is_refused(checkpoint, tmp_path):
    model = transformers.AutoModel.from_pretrained(checkpoint("BertForMaskedLM"))
    state = {name: value for name, value in model.state_dict().items() if "layer.0.output" not in name}
    model.save_pretrained(tmp_path, state_dict=state)
    transformers.AutoTokenizer.from_pretrained(checkpoint("BertForMaskedLM")).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="no weights for"):
        asking.ask(load(f"encoder:{tmp_path}", CPU), [Embed("a")])


# --- the answer store


def test_a_vector_is_float32_in_memory_and_in_the_store(tmp_path):
    vector = Vector((0.1, -2.5, 1e-30))
    assert list(vector.values) == [float(np.float32(x)) for x in (0.1, -2.5, 1e-30)]
    assert parse(dump(vector)) == vector and len(dump(vector)) == 12
    folder = RunFolder(tmp_path / "run", fresh=False)
    try:
        folder.keep([(Embed("a"), vector), (Embed("a", "first"), Vector((1.0,)))], "model")
        assert folder.answers([Embed("a"), Embed("b")], "model") == {Embed("a"): vector}
        assert folder.answers([Embed("a", "first")], "model") == {Embed("a", "first"): Vector((1.0,))}
    finally:
        folder.close()


def test_a_store_of_vectors_takes_little_more_than_they_do(tmp_path):
    rng = np.random.default_rng(0)
    folder = RunFolder(tmp_path / "run", fresh=False)
    try:
        for part in range(20):
            folder.keep([(Embed(f"{part} {i}"), Vector(rng.random(384).tolist())) for i in range(50)], "m" * 64)
    finally:
        folder.close()
    assert (tmp_path / "run" / "answers.sqlite").stat().st_size < 2 * 1000 * 384 * 4


def test_packaged_models_say_what_they_are():
    for name, package in PACKAGED.items():
        assert bool(package.parts) != bool(package.files), name
        assert (package.kind == "encoder") == (name == "minilm")
        assert all(len(member.sha256) == 64 for member in (*package.parts, *package.files, *package.notices))


@pytest.mark.slow
def test_minilm_from_its_wheel():
    model = load("minilm", CPU)
    assert model.kind == "encoder" and hub.kind_of("minilm", CPU) == "encoder"
    near, far = (
        vectors(model, [Embed("She is a nurse."), Embed(text)]) for text in ("A woman works as a nurse.", "Blue paint.")
    )
    cosine = [np.corrcoef(*found.values())[0, 1] for found in (near, far)]
    assert cosine[0] > 0.6 > cosine[1]
