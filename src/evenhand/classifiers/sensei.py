"""SenSeI: a classifier trained to say the same of rows that are alike.

Yurochkin and Sun 2020 (arXiv 2006.14168): the loss plus rho times a transport-based regulariser, the largest mean
distance of outputs that a map of rows to rows close by a fair metric can make. In its dual form, per row,

    sup over x' of d_Y(h(x), h(x')) - lambda * d_X(x, x'),

which is climbed by gradient, lambda being learned beside the weights so that the mean d_X stays below epsilon
(algorithms 1 and 2). d_Y is half the squared distance of logits. d_X is the squared distance outside of a sensitive
subspace: the leading directions of the differences between rows that are known to be alike (Mukherjee et al. 2020).
Inside the subspace a step costs nothing; there x' - x is kept within the length that nine in ten known pairs have,
since frozen features are no bounded set. The head is linear, so that gradients are written out in numpy.
"""

from dataclasses import dataclass

import numpy as np

from evenhand.classifiers import Features, Floats, Ints, Linear, softmax, spread, standardised


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the method leaves open."""

    rho: float = 0.1
    epsilon: float = 0.1
    directions: int = 10
    penalty: float = 1e-3
    epochs: int = 60
    batch: int = 256
    rate: float = 0.01
    climbs: int = 5
    climb_rate: float = 1.0
    lambda_rate: float = 0.1


def subspace(differences: Floats, directions: int) -> Floats:
    """The leading directions of differences between rows that are alike, orthonormal: shape (features, directions)."""
    _, values, vectors = np.linalg.svd(differences.T @ differences)
    kept = int(min(directions, (values > 1e-9 * max(float(values[0]), 1e-30)).sum()))
    found: Floats = vectors[:kept].T
    return found


def train(
    features: Features, twins: Features, labels: Ints, *, settings: Settings | None = None, seed: int = 0
) -> Linear:
    """A linear classifier with SenSeI's regulariser.

    Args:
        features: training rows, shape (rows, features).
        twins: for every row a row that should be treated alike, which may be the row itself.
        labels: shape (rows,).
        settings: the method's.
        seed: of the batches' order and of where the climbs begin.
    """
    own = settings or Settings()
    rng = np.random.default_rng(seed)
    centre, scale = spread(features)
    x = standardised(features, centre, scale).astype(np.float64)
    classes, y = np.unique(labels, return_inverse=True)
    differences = standardised(twins, centre, scale) - x
    differences = differences[np.abs(differences).max(axis=1) > 1e-6]
    if len(differences):
        directions = subspace(differences, own.directions)
        radius = float(np.quantile(np.linalg.norm(differences @ directions, axis=1), 0.9))
    else:
        directions, radius = np.zeros((x.shape[1], 0)), 0.0
    weights, bias = np.zeros((len(classes), x.shape[1])), np.zeros(len(classes))
    optimiser = Adam([weights, bias])
    price = 1.0
    for epoch in range(own.epochs):
        rate = own.rate * (1 - epoch / own.epochs)
        order = rng.permutation(len(x))
        for low in range(0, len(order), own.batch):
            rows = order[low : low + own.batch]
            step, outside = climb(weights, directions, radius, price, len(rows), own, rng)
            error = softmax(x[rows] @ weights.T + bias)
            error[np.arange(len(rows)), y[rows]] -= 1
            moved = step @ weights.T  # h(x') - h(x)
            gradient = (error.T @ x[rows] + own.rho * moved.T @ step) / len(rows) + own.penalty * weights
            optimiser.step([gradient, error.mean(axis=0)], rate)
            price = max(0.0, price + own.lambda_rate * (float(outside.mean()) - own.epsilon))
    return Linear(classes, weights, bias, centre, scale)


def climb(
    weights: Floats, directions: Floats, radius: float, price: float, n: int, own: Settings, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Steps x' - x that gradient ascent finds, and their d_X; for a linear head they do not depend on x.

    Returns:
        Shapes (n, features) and (n,).
    """
    inside = rng.standard_normal((n, directions.shape[1]))
    inside *= radius / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-12)
    outside = np.zeros((n, weights.shape[1]))
    squared = float(np.linalg.norm(weights, 2)) ** 2
    for _ in range(own.climbs):
        slope = ((inside @ directions.T + outside) @ weights.T) @ weights
        along = slope @ directions
        inside = inside + own.climb_rate * radius * along / np.maximum(
            np.linalg.norm(along, axis=1, keepdims=True), 1e-12
        )
        length = np.linalg.norm(inside, axis=1, keepdims=True)
        inside *= np.minimum(1.0, radius / np.maximum(length, 1e-12))
        across = slope - along @ directions.T - 2 * price * outside
        # A step that cannot run away: the objective's curvature outside of the subspace is at most this.
        outside = outside + across / (squared + 2 * price + 1e-12)
    return inside @ directions.T + outside, (outside**2).sum(axis=1)


class Adam:
    """Kingma and Ba 2015, in place."""

    def __init__(self, parameters: list[Floats]) -> None:
        self._parameters, self._steps = parameters, 0
        self._first = [np.zeros_like(p) for p in parameters]
        self._second = [np.zeros_like(p) for p in parameters]

    def step(self, gradients: list[Floats], rate: float) -> None:
        """One step along the gradients."""
        self._steps += 1
        for i, gradient in enumerate(gradients):
            self._first[i] += 0.1 * (gradient - self._first[i])
            self._second[i] += 0.001 * (gradient**2 - self._second[i])
            mean = self._first[i] / (1 - 0.9**self._steps)
            size = np.sqrt(self._second[i] / (1 - 0.999**self._steps)) + 1e-8
            self._parameters[i] -= rate * mean / size
