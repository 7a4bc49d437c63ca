"""Features in, class probabilities out: classifiers that are trained on a frozen model's vectors.

A room of its own: it knows no benchmark and no group of people, reads no file and makes no request. What a class means,
which rows are alike and what a row weighs is said by whoever calls.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import InputError

Floats = NDArray[np.float64]
Features = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Linear:
    """A softmax classifier on standardised features.

    Attributes:
        classes: the classes it can predict, ascending, shape (classes,).
        weights: shape (classes, features).
        bias: shape (classes,).
        centre: subtracted from features, shape (features,).
        scale: features are divided by it, shape (features,).
        converged: whether training ended by itself.
    """

    classes: Ints
    weights: Floats
    bias: Floats
    centre: Floats
    scale: Floats
    converged: bool = True

    def probabilities(self, features: Features, n_classes: int) -> Floats:
        """Probabilities of all classes, shape (rows, n_classes); 0 for those that no training row had."""
        logits = standardised(features, self.centre, self.scale) @ self.weights.T.astype(np.float32) + self.bias
        found = np.zeros((len(features), n_classes))
        found[:, self.classes] = softmax(logits)
        return found


def softmax(logits: Floats) -> Floats:
    """Over the last axis, without overflow."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return found


def spread(features: Features) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each feature; 1 where a feature is constant."""
    centre = features.mean(axis=0, dtype=np.float64)
    scale = features.std(axis=0, dtype=np.float64)
    return centre, np.where(scale > 1e-7, scale, 1.0)


def standardised(features: Features, centre: Floats, scale: Floats) -> Features:
    """(features - centre) / scale, as float32."""
    found = features - centre.astype(np.float32)
    found /= scale.astype(np.float32)
    return found


def logistic(
    features: Features, labels: Ints, *, weights: Floats | None = None, c: float = 0.1, seed: int = 0
) -> Linear:
    """Multinomial logistic regression (scikit-learn, L-BFGS) on standardised features.

    Args:
        features: shape (rows, features).
        labels: shape (rows,).
        weights: what each row weighs, mean 1; all the same if None.
        c: inverse strength of the L2 penalty, as scikit-learn has it.
        seed: of the solver.

    Raises:
        InputError: scikit-learn is not installed, or the rows have one class only.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise InputError("the classifier needs scikit-learn: pip install 'evenhand[bios]'") from None
    if len(np.unique(labels)) < 2:
        raise InputError("the training rows are all of one class: there is nothing to learn")
    centre, scale = spread(features)
    model = LogisticRegression(C=c, max_iter=1000, random_state=seed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(standardised(features, centre, scale), labels, sample_weight=weights)
    coefficients, bias = np.asarray(model.coef_, dtype=np.float64), np.asarray(model.intercept_, dtype=np.float64)
    if len(model.classes_) == 2:  # scikit-learn keeps one row for two classes
        coefficients, bias = np.vstack([-coefficients, coefficients]) / 2, np.hstack([-bias, bias]) / 2
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in said)
    return Linear(np.asarray(model.classes_), coefficients, bias, centre, scale, converged)


def balanced_weights(*keys: Ints) -> Floats:
    """Row weights by which every combination of keys that has a row weighs the same in all; their mean is 1."""
    _, index, sizes = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True, return_counts=True)
    found: Floats = len(index) / (len(sizes) * sizes[index.reshape(-1)])
    return found
