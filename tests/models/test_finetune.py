"""Training a model as a classifier: seeded, repeatable, able to learn, and nothing else is touched by it."""

from dataclasses import replace

import asking
import numpy as np
import pytest

from evenhand.errors import InputError, ModelError
from evenhand.models import LoadOptions, load
from evenhand.requests import Classify, Embed, Vector, dump, key, parse

NAMES = ["the doctor", "she", "the plumber in town", "a man", "the nurse and the guard", "he", "the lawyer", "a woman"]
TEXTS = tuple(f"{name} {verb}." for name in NAMES for verb in ("was late", "met the baker"))
ENDS = ("was late", "met him", "was not late", "met her")
TOLD, ASKED = ([f"{name} {end}." for name in part for end in ENDS] for part in (NAMES[:6], NAMES[6:]))
REQUEST = Classify(
    texts=TEXTS[:12], labels=(0, 1) * 6, queries=TEXTS[12:], epochs=12, learning_rate=2e-3, batch=4, seed=1
)  # fmt: skip


def opened(checkpoint, architecture="BertForMaskedLM", kind="encoder:", **options):
    return load(f"{kind}{checkpoint(architecture)}", LoadOptions(device="cpu", **options))


def trained(model, request=REQUEST):
    """Shape (queries, classes)."""
    found = asking.ask(model, [request])[request]
    return np.array(found.values).reshape(len(request.queries), -1)


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [("BertForMaskedLM", "encoder:"), ("BertForMaskedLM", ""), ("DistilBertForMaskedLM", ""), ("GPT2LMHeadModel", "")],
)
def test_it_learns_what_can_be_told_and_leaves_the_model_as_it_is(checkpoint, architecture, kind):
    model = opened(checkpoint, architecture, kind)
    embed = Embed("The doctor was a woman.")
    before = asking.ask(model, [embed])
    request = replace(REQUEST, texts=tuple(TOLD), labels=(0, 1) * 12, queries=tuple(ASKED))
    found = trained(model, request)
    assert found.shape == (8, 2)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    assert (found.argmax(1) == [0, 1] * 4).sum() >= 7
    assert asking.ask(model, [embed]) == before == asking.ask(opened(checkpoint, architecture, kind), [embed])


def test_the_seed_decides(checkpoint):
    request = replace(REQUEST, epochs=1)
    model = opened(checkpoint)
    first = trained(model, request)
    assert np.array_equal(first, trained(model, request))
    assert np.array_equal(first, trained(opened(checkpoint), request))
    assert not np.array_equal(first, trained(model, replace(request, seed=2)))
    assert not np.array_equal(first, trained(model, replace(request, pooling="first")))
    assert not np.array_equal(first, trained(model, replace(request, weights=(0.5, 1.5) * 6)))


def test_what_a_step_is_does_not_hang_on_the_batch_tokens(checkpoint, tmp_path):
    import tiny

    plain = tiny.save(tmp_path / "plain", "BertForMaskedLM", hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    one, all_of = (
        trained(load(f"encoder:{plain}", LoadOptions(device="cpu", batch_tokens=n)), replace(REQUEST, epochs=2))
        for n in (1, 4096)
    )
    np.testing.assert_allclose(one, all_of, atol=1e-3)


def test_an_answer_that_is_there_is_not_made_again_and_is_kept_whole(checkpoint):
    model = opened(checkpoint)
    request = replace(REQUEST, epochs=1)
    (pair,) = next(iter(model.answer([request], ())))
    assert parse(dump(pair[1])) == pair[1] and isinstance(pair[1], Vector)
    assert list(model.answer([request], {request})) == []
    assert key(request) == key(replace(request)) != key(replace(request, seed=9))


def test_the_same_random_numbers_follow_with_and_without_it(checkpoint):
    import torch

    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    trained(opened(checkpoint), replace(REQUEST, epochs=1))
    assert torch.equal(torch.rand(2), want)


def test_training_that_fails_is_one_line(checkpoint):
    model = opened(checkpoint)
    with pytest.raises(InputError, match="12 texts to train on have 11 labels"):
        trained(model, replace(REQUEST, labels=(0,) * 11))
    with pytest.raises(ModelError, match="not finite") as caught:
        trained(model, replace(REQUEST, weights=(float("nan"),) * 12, epochs=1))
    assert "doctor" not in str(caught.value)
