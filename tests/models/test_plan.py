"""Plans hold whatever the paths are: nothing is lost, nothing is forwarded twice, no budget is broken."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.models.plan import Path, Probe, Read, Row, Slot, batches, chains, inputs, trees

TOKENS = st.lists(st.integers(0, 2), min_size=2, max_size=9).map(tuple)


@st.composite
def path_lists(draw):
    """Paths as requests make them: some choices of one request share their beginning, some requests are alike."""
    paths = []
    for request in range(draw(st.integers(0, 12))):
        prefix = draw(st.sampled_from([(), (0, 1), (0, 1, 2, 0, 1), (2,) * 6]))
        for choice, tokens in enumerate(draw(st.lists(TOKENS, min_size=1, max_size=3))):
            whole = prefix + tokens
            start = draw(st.integers(1, len(whole) - 1))
            paths.append(Path(whole, start, request, choice, draw(st.sampled_from([0, 0, 3]))))
    return paths


def plans(paths, row_tokens):
    return trees(paths, row_tokens), chains(paths)


def size(rows):
    return sum(len(row.tokens) for row in rows)


def ancestors(row, node):
    way = []
    while node >= 0:
        way.append(row.tokens[node])
        node = row.parents[node]
    return tuple(reversed(way))


@settings(max_examples=100, deadline=None)
@given(path_lists(), st.integers(1, 40))
def test_every_read_is_there_once_and_its_node_spells_all_before_it(paths, row_tokens):
    want = {
        Slot(path.request, path.choice, path.first + i - path.start): (path.tokens[:i], path.tokens[i])
        for path in paths
        for i in range(path.start, len(path.tokens))
    }
    for rows in plans(paths, row_tokens):
        got = [(read.slot, (ancestors(row, read.node), read.target)) for row in rows for read in row.reads]
        assert len(got) == len(want)
        assert dict(got) == want


@settings(max_examples=100, deadline=None)
@given(path_lists(), st.integers(1, 40))
def test_rows_are_trees_in_which_depth_and_sight_follow_from_parents(paths, row_tokens):
    for rows in plans(paths, row_tokens):
        for row in rows:
            assert len(row.tokens) == len(row.depths) == len(row.parents) > 0
            assert all(parent < node for node, parent in enumerate(row.parents))
            seen = row.visible()
            assert seen.shape == (len(row.tokens),) * 2
            for node, parent in enumerate(row.parents):
                assert row.depths[node] == (row.depths[parent] + 1 if parent >= 0 else 0)
                way = {node} if parent < 0 else {node, *np.flatnonzero(seen[parent])}
                assert set(np.flatnonzero(seen[node])) == way
            ways = [ancestors(row, node) for node in range(len(row.tokens))]
            assert len(set(ways)) == len(ways), "a shared beginning stands once"


@settings(max_examples=100, deadline=None)
@given(path_lists(), st.integers(1, 40))
def test_no_row_is_over_the_budget_but_for_a_single_longer_path(paths, row_tokens):
    for row in trees(paths, row_tokens):
        longest = max(len(ancestors(row, read.node)) for read in row.reads)
        assert len(row.tokens) <= row_tokens or (row.plain and len(row.tokens) == longest)


@settings(max_examples=150, deadline=None)
@given(path_lists(), st.integers(1, 40))
def test_trees_never_forward_more_than_chains_nor_chains_more_than_plain_texts(paths, row_tokens):
    tree, chain = plans(paths, row_tokens)
    assert size(tree) <= size(chain) <= sum(len(path.tokens) - 1 for path in paths)
    assert all(row.plain for row in chain)
    assert [row.depths for row in chain] == [list(range(len(row.tokens))) for row in chain]


@settings(max_examples=100, deadline=None)
@given(path_lists())
def test_one_row_with_room_forwards_each_different_beginning_once(paths):
    rows = trees(paths, 10_000)
    assert len(rows) == (1 if paths else 0)
    assert size(rows) == len({path.tokens[:n] for path in paths for n in range(1, len(path.tokens))})


@settings(max_examples=100, deadline=None)
@given(path_lists(), st.integers(1, 40), st.integers(0, 99))
def test_plans_do_not_depend_on_the_order_of_requests(paths, row_tokens, seed):
    shuffled = random.Random(seed).sample(paths, len(paths))
    assert plans(shuffled, row_tokens) == plans(paths, row_tokens)
    assert plans(paths, row_tokens) == plans(paths, row_tokens)


def test_four_choices_of_one_token_cost_one_pass_over_the_context():
    context = tuple(range(5))
    paths = [Path((*context, 90 + i), 5, 0, i) for i in range(4)]
    for rows in plans(paths, 64):
        (row,) = rows
        assert row.tokens == list(context)
        assert row.reads == [Read(4, 90 + i, Slot(0, i, 0)) for i in range(4)]


def test_choices_of_a_context_longer_than_a_row_still_share_it():
    context = tuple(range(300))
    paths = [Path((*context, 900 + i), 300, 0, i) for i in range(4)]
    assert size(trees(paths, 256)) == 300


def test_choices_of_several_tokens_share_their_context_in_trees_only():
    paths = [Path((1, 2, 3, choice, 9), 3, 0, choice) for choice in (5, 6)]
    tree, chain = plans(paths, 64)
    assert [row.tokens for row in tree] == [[1, 2, 3, 5, 6]]
    assert tree[0].parents == [-1, 0, 1, 2, 2]
    assert not tree[0].plain
    assert [row.tokens for row in chain] == [[1, 2, 3, 5], [1, 2, 3, 6]]


def test_nothing_to_read_is_no_rows():
    assert plans([], 8) == ([], [])
    assert inputs([]) == batches([], 8) == []


# --- masked inputs


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TOKENS, st.integers(0, 8), st.integers(0, 2)), max_size=20))
def test_equal_masked_inputs_are_one_row_with_every_read(asked):
    probes = [
        Probe(tokens, position % len(tokens), target, Slot(i, 0, 0))
        for i, (tokens, position, target) in enumerate(asked)
    ]
    rows = inputs(probes)
    assert len(rows) == len({probe.tokens for probe in probes})
    got = [(tuple(row.tokens), *read) for row in rows for read in row.reads]
    assert sorted(got) == sorted(probes)
    assert all(row.plain for row in rows)


# --- batches


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=60), st.integers(1, 300))
def test_batches_hold_every_row_once_within_the_budget_and_with_little_padding(lengths, batch_tokens):
    rows = [Row([i] * n, list(range(n)), list(range(-1, n - 1))) for i, n in enumerate(lengths)]
    made = batches(rows, batch_tokens)
    assert sorted(row.tokens[0] for batch in made for row in batch) == list(range(len(rows)))
    for batch in made:
        padded = max(len(row.tokens) for row in batch) * len(batch)
        assert len(batch) == 1 or padded <= batch_tokens
        assert padded - size(batch) <= padded / 8
    assert batches(rows, batch_tokens) == made


@pytest.mark.parametrize("batch_tokens", [1, 7, 8, 64])
def test_equal_rows_fill_a_batch_to_its_budget(batch_tokens):
    rows = [Row([0, 0], [0, 1], [-1, 0]) for _ in range(8)]
    assert max(len(batch) for batch in batches(rows, batch_tokens)) == min(8, max(1, batch_tokens // 2))
