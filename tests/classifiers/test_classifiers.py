"""Classifiers on features: against scikit-learn, against closed forms."""

import sys

import numpy as np
import pytest

from evenhand import classifiers
from evenhand.classifiers import sensei
from evenhand.errors import InputError

pytest.importorskip("sklearn")


def blobs(seed=0, n=600, k=4, size=12):
    """Rows of classes with means apart, float32."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    means = 2 * rng.standard_normal((k, size))
    return (means[y] + rng.standard_normal((n, size))).astype(np.float32), y


@pytest.mark.parametrize("k", [2, 4])
def test_probabilities_are_scikit_learn_s(k):
    from sklearn.linear_model import LogisticRegression

    x, y = blobs(k=k)
    mine = classifiers.logistic(x, y, c=0.3)
    z = classifiers.standardised(x, *classifiers.spread(x))
    theirs = LogisticRegression(C=0.3, max_iter=1000).fit(z, y)
    np.testing.assert_allclose(mine.probabilities(x, k), theirs.predict_proba(z), atol=1e-4)
    assert mine.converged and (mine.probabilities(x, k).argmax(1) == y).mean() > 0.9


def test_classes_without_a_training_row_are_never_predicted():
    x, y = blobs(k=3)
    found = classifiers.logistic(x, 2 * y + 1).probabilities(x, 7)
    assert found.shape == (600, 7)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert not found[:, [0, 2, 4, 6]].any()


def test_scale_and_constant_features_do_not_matter():
    x, y = blobs()
    wide = np.hstack([x * 1000 + 5, np.ones((600, 1), np.float32)])
    a, b = classifiers.logistic(x, y), classifiers.logistic(wide, y)
    np.testing.assert_allclose(a.probabilities(x, 4), b.probabilities(wide, 4), atol=2e-3)


def test_one_class_is_refused():
    with pytest.raises(InputError, match="all of one class"):
        classifiers.logistic(np.ones((3, 2), np.float32), np.zeros(3, int))


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(InputError, match=r"pip install 'evenhand\[bios\]'"):
        classifiers.logistic(*blobs())


def test_balanced_weights_by_hand():
    y, g = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    found = classifiers.balanced_weights(y, g)
    np.testing.assert_allclose(found, [2 / 3, 2 / 3, 4 / 3, 4 / 3])
    assert found.mean() == pytest.approx(1)


# --- SenSeI


def leaning(seed=0, n=1500, k=3, size=10):
    """Rows whose first direction is sensitive and tells of the class; twins are flipped along it."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    sign = np.where(rng.random(n) < 0.1 + 0.8 * (y == 0), 1, -1)
    x = 0.5 * rng.standard_normal((k, size))[y] + rng.standard_normal((n, size))
    x[:, 0] = sign * 2
    twins = x.copy()
    twins[:, 0] *= -1
    return x.astype(np.float32), twins.astype(np.float32), y


def consistency(model, x, twins, k=3):
    return (model.probabilities(x, k).argmax(1) == model.probabilities(twins, k).argmax(1)).mean()


def test_sensei_says_the_same_of_rows_that_are_alike_and_still_learns():
    x, twins, y = leaning()
    plain, fair = classifiers.logistic(x, y), sensei.train(x, twins, y)
    assert consistency(plain, x, twins) < 0.75
    assert consistency(fair, x, twins) > consistency(plain, x, twins) + 0.15
    right = [(model.probabilities(x, 3).argmax(1) == y).mean() for model in (plain, fair)]
    assert right[1] > right[0] - 0.15 and right[1] > 0.6


def test_sensei_without_its_regulariser_is_logistic_regression():
    x, twins, y = leaning()
    settings = sensei.Settings(rho=0, penalty=1 / (0.1 * len(x)), epochs=200)
    plain, free = classifiers.logistic(x, y, c=0.1), sensei.train(x, twins, y, settings=settings)
    np.testing.assert_allclose(free.probabilities(x, 3), plain.probabilities(x, 3), atol=0.06)


def test_more_of_it_is_more_consistent():
    x, twins, y = leaning()
    found = [
        consistency(sensei.train(x, twins, y, settings=sensei.Settings(rho=rho)), x, twins) for rho in (0, 0.02, 1)
    ]
    assert found[0] < found[1] <= found[2]


def test_the_subspace_is_that_of_the_differences():
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((8, 2)))[0]
    found = sensei.subspace(rng.standard_normal((50, 2)) @ directions.T, 5)
    assert found.shape == (8, 2)
    np.testing.assert_allclose(found @ found.T, directions @ directions.T, atol=1e-8)


def test_the_climb_finds_the_largest_distance_of_outputs():
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((5, 8))
    directions = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    price = 1e6  # outside of the subspace nothing is worth it
    own = sensei.Settings(climbs=30)
    step, outside = sensei.climb(weights, directions, 0.7, price, 64, own, rng)
    best = 0.7 * np.linalg.norm(weights @ directions, 2)
    reached = np.linalg.norm(step @ weights.T, axis=1)
    assert (reached <= best * 1.0001).all() and np.median(reached) > 0.98 * best
    assert outside.max() < 1e-6


def test_rows_that_are_all_their_own_twins_train_too():
    x, _, y = leaning()
    assert (sensei.train(x, x, y).probabilities(x, 3).argmax(1) == y).mean() > 0.6


def test_the_same_seed_gives_the_same_weights():
    x, twins, y = leaning(n=300)
    first, again, other = (sensei.train(x, twins, y, seed=seed).weights for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_adam_is_torch_s():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal(6), rng.standard_normal((20, 6))
    mine = start.copy()
    optimiser = sensei.Adam([mine])
    theirs = torch.tensor(start, requires_grad=True)
    reference = torch.optim.Adam([theirs], lr=0.05)
    for gradient in gradients:
        optimiser.step([gradient], 0.05)
        theirs.grad = torch.tensor(gradient)
        reference.step()
    np.testing.assert_allclose(mine, theirs.detach().numpy(), atol=1e-6)
