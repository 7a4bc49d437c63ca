"""The two rules of the reference, against plain-Python ones written anew."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.metrics.preference import likelihood_diff, male_preferred

logprobs = st.floats(min_value=-30, max_value=0)
rows = st.tuples(st.lists(logprobs, min_size=1, max_size=4), st.lists(logprobs, min_size=1, max_size=4))


def one(rule, female, male):
    (value,) = rule(np.array([female], dtype=float), np.array([male], dtype=float))
    return value


def written_anew(female, male):
    return math.log(sum(map(math.exp, female))) - math.log(sum(map(math.exp, male)))


def harness(female, male):
    scores = [*female, *male]
    return 1.0 if scores.index(max(scores)) >= len(female) else 0.0


@given(rows)
def test_difference_of_log_sums(row):
    assert one(likelihood_diff, *row) == pytest.approx(written_anew(*row), abs=1e-9)


@given(rows)
def test_male_where_the_first_largest_is_male(row):
    assert one(male_preferred, *row) == harness(*row)


@given(rows)
def test_groups_swapped_flip_the_sign(row):
    female, male = row
    assert one(likelihood_diff, female, male) == -one(likelihood_diff, male, female)


def test_a_hand_calculation():
    female, male = [math.log(0.01), math.log(0.03)], [math.log(0.05), math.log(0.11)]
    assert one(likelihood_diff, female, male) == pytest.approx(math.log(0.25))
    assert one(male_preferred, female, male) == 1.0


def test_a_thousand_nats_down_is_as_good_as_one():
    near = one(likelihood_diff, [-1.0, -2.0], [-3.0, -0.5])
    far = one(likelihood_diff, [-1001.0, -1002.0], [-1003.0, -1000.5])
    assert far == pytest.approx(near, abs=1e-9)
    with pytest.raises(ValueError):  # what the harness does there
        written_anew([-1001.0, -1002.0], [-1003.0, -1000.5])


@pytest.mark.parametrize(
    ("scores", "male"),
    [
        ([-1, -1, -1, -1], 0), ([-2, -1, -1, -1], 0), ([-2, -2, -1, -1], 1), ([-2, -2, -2, -1], 1),
        ([-1, -2, -1, -2], 0), ([-2, -1.0, -1.5, -1.0], 0), ([-1000, -1000, -999.5, -1001], 1),
    ],
)  # fmt: skip
def test_a_tie_goes_to_the_first_in_order(scores, male):
    assert one(male_preferred, scores[:2], scores[2:]) == male
