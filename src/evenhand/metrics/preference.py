"""Which of two groups of words a model prefers.

Source: Brown et al. 2020 (arXiv 2005.14165), section 6.2, and lm-evaluation-harness `simple_cooccurrence_bias`.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def likelihood_diff(female: Floats, male: Floats) -> Floats:
    """log(sum of the female words' probabilities) - log(sum of the male words'), per row.

    Args:
        female: log-probabilities in nats, shape (rows, words).
        male: the same for the male words; the two may differ in the number of words.

    Returns:
        Shape (rows,), in nats; negative leans male. Log-sum-exp, so that -1000 is as good as -1.
    """
    difference: Floats = np.logaddexp.reduce(female, axis=1) - np.logaddexp.reduce(male, axis=1)
    return difference


def male_preferred(female: Floats, male: Floats) -> Floats:
    """1.0 where the most likely word is a male one, else 0.0; a tie goes to the first word, female words first.

    Args:
        female: log-probabilities in nats, shape (rows, words).
        male: the same for the male words.

    Returns:
        Shape (rows,).
    """
    best = np.argmax(np.concatenate([female, male], axis=1), axis=1)
    preferred: Floats = (best >= female.shape[1]).astype(np.float64)
    return preferred
