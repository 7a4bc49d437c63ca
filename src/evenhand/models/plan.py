"""Which forward passes answer a list of token sequences: no torch here, only integers.

A `Path` is a sequence of tokens of which those from `start` on are to be read, each given all before it. Causal paths
share their beginnings: `trees` lays them into rows in which every shared prefix stands once and each token sees only
its own ancestors. Models that cannot take such a mask get `chains`: rows of plain sequences, in which a path that is
the beginning of another costs nothing. Masked inputs are deduplicated by `inputs`. `batches` groups rows under a token
budget.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Slot(NamedTuple):
    """Where a log-probability belongs: the request, its choice or fill, the token within it."""

    request: int
    choice: int
    token: int


class Path(NamedTuple):
    """Tokens, of which `tokens[start:]` are read; `start` is at least 1."""

    tokens: tuple[int, ...]
    start: int
    request: int
    choice: int


class Read(NamedTuple):
    """log P(`target`) at a row's `node`."""

    node: int
    target: int
    slot: Slot


class Probe(NamedTuple):
    """A masked input: log P(`target`) at `position` of `tokens`."""

    tokens: tuple[int, ...]
    position: int
    target: int
    slot: Slot


@dataclass(slots=True)
class Row:
    """One row of a forward pass. In a plain row every token's parent is the one before it."""

    tokens: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)

    def visible(self) -> NDArray[np.bool_]:
        """Which tokens each token sees: itself and its ancestors. Shape (tokens, tokens)."""
        seen = np.zeros((len(self.tokens), len(self.tokens)), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] = seen[parent]
            seen[node, node] = True
        return seen


class _Builder:
    """A row as it grows, with the way from a node by a token to its child."""

    def __init__(self) -> None:
        self.row = Row()
        self.children: dict[tuple[int, int], int] = {}

    def shared(self, tokens: Sequence[int]) -> tuple[int, int]:
        """How many of the tokens stand in the row already, and the node they end in (-1 for none)."""
        node = -1
        for count, token in enumerate(tokens):
            child = self.children.get((node, token))
            if child is None:
                return count, node
            node = child
        return len(tokens), node

    def add(self, path: Path) -> None:
        """Adds what is new of the path, and its reads."""
        row, body = self.row, path.tokens[:-1]
        node = -1
        for depth, token in enumerate(body):
            child = self.children.get((node, token))
            if child is None:
                child = self.children[node, token] = len(row.tokens)
                row.tokens.append(token)
                row.depths.append(depth)
                row.parents.append(node)
            node = child
            if depth + 1 >= path.start:
                slot = Slot(path.request, path.choice, depth + 1 - path.start)
                row.reads.append(Read(node, path.tokens[depth + 1], slot))


def trees(paths: Iterable[Path], row_tokens: int) -> list[Row]:
    """Rows of about `row_tokens` tokens in which paths share their prefixes; a longer path has a row of its own."""
    return _rows(paths, lambda b, path: len(b.row.tokens) + len(path.tokens) - 1
                 - b.shared(path.tokens[:-1])[0] <= row_tokens)  # fmt: skip


def chains(paths: Iterable[Path]) -> list[Row]:
    """Plain rows: a path joins a row only where one of the two is the other's beginning."""

    def fits(builder: _Builder, path: Path) -> bool:
        count, node = builder.shared(path.tokens[:-1])
        return count == len(path.tokens) - 1 or node == len(builder.row.tokens) - 1

    return _rows(paths, fits)


def _rows(paths: Iterable[Path], fits: Callable[[_Builder, Path], bool]) -> list[Row]:
    rows: list[Row] = []
    builder = _Builder()
    for path in sorted(paths):
        if builder.row.tokens and not fits(builder, path):
            rows.append(builder.row)
            builder = _Builder()
        builder.add(path)
    if builder.row.tokens:
        rows.append(builder.row)
    return rows


def inputs(probes: Iterable[Probe]) -> list[Row]:
    """One row per different masked input, with all that is read of it."""
    rows: dict[tuple[int, ...], Row] = {}
    for probe in probes:
        row = rows.get(probe.tokens)
        if row is None:
            n = len(probe.tokens)
            row = rows[probe.tokens] = Row(list(probe.tokens), list(range(n)), list(range(-1, n - 1)))
        row.reads.append(Read(probe.position, probe.target, probe.slot))
    return list(rows.values())


def batches(rows: Sequence[Row], batch_tokens: int) -> list[list[Row]]:
    """Rows sorted by length, grouped so that a padded batch holds at most `batch_tokens` (or one row).

    A batch is closed early where padding would be more than an eighth of it.
    """
    made: list[list[Row]] = []
    real = 0
    for row in sorted(rows, key=lambda row: len(row.tokens)):
        n = len(row.tokens)
        if made:
            padded = n * (len(made[-1]) + 1)
            if padded <= batch_tokens and padded - real - n <= padded / 8:
                made[-1].append(row)
                real += n
                continue
        made.append([row])
        real = n
    return made
