"""Which forward passes answer a list of token sequences: no torch here, only integers.

A `Path` is a sequence of tokens of which those from `start` on are to be read, each given all before it. Causal paths
share their beginnings: `trees` lays them into rows in which every shared prefix stands once and each token sees only
its own ancestors. Models that cannot take such a mask get `chains`: rows of plain sequences, in which a path that is
the beginning of another costs nothing. Masked inputs are deduplicated by `inputs`. `batches` groups rows under a token
budget.
"""

from collections.abc import Iterable, MutableSequence, Sequence
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
    """Tokens, of which `tokens[start:]` are read, as the choice's tokens from `first` on; `start` is at least 1."""

    tokens: tuple[int, ...]
    start: int
    request: int
    choice: int
    first: int = 0


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
    """One row of a forward pass. In a plain row every token's parent is the one before it.

    `source` is what the encoder reads, for an encoder-decoder model.
    """

    tokens: MutableSequence[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    source: tuple[int, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether every token's parent is the one before it."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

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

    def shared(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, from the first on, stand in the row already."""
        node = -1
        for count, token in enumerate(tokens):
            child = self.children.get((node, token))
            if child is None:
                return count
            node = child
        return len(tokens)

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
                slot = Slot(path.request, path.choice, path.first + depth + 1 - path.start)
                row.reads.append(Read(node, path.tokens[depth + 1], slot))


def trees(paths: Iterable[Path], row_tokens: int) -> list[Row]:
    """Rows of at most `row_tokens` tokens in which paths share their prefixes; only a longer path makes a longer row.

    A path that is another's beginning always shares that one's row, so that trees never take more than chains.
    """
    return _rows(_chained(paths), row_tokens)


def chains(paths: Iterable[Path]) -> list[Row]:
    """Plain rows: paths share a row only where all of them are beginnings of its longest."""
    return _rows(_chained(paths), 0)


def _chained(paths: Iterable[Path]) -> list[tuple[tuple[int, ...], list[Path]]]:
    """Sorted paths in groups: what the longest of a group forwards, and its members, all of them beginnings of it."""
    groups: list[tuple[tuple[int, ...], list[Path]]] = []
    for path in sorted(paths):
        body = path.tokens[:-1]
        if groups:
            longest, members = groups[-1]
            short, long = sorted((body, longest), key=len)
            if long[: len(short)] == short:
                members.append(path)
                groups[-1] = (long, members)
                continue
        groups.append((body, [path]))
    return groups


def _rows(groups: list[tuple[tuple[int, ...], list[Path]]], row_tokens: int) -> list[Row]:
    builder = _Builder()
    rows = [builder.row]
    for longest, members in groups:
        row = builder.row
        if row.tokens and len(row.tokens) + len(longest) - builder.shared(longest) > row_tokens:
            builder = _Builder()
            rows.append(builder.row)
        for path in members:
            builder.add(path)
    return [row for row in rows if row.tokens]


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
    """Rows grouped into batches by their length, see `grouped`."""
    lengths = [len(row.tokens) + len(row.source) for row in rows]
    return [[rows[i] for i in group] for group in grouped(lengths, batch_tokens)]


def grouped(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Sequences by index, sorted by length, so that a padded batch holds at most `batch_tokens` (or one sequence).

    A batch is closed early where padding would be more than an eighth of it.
    """
    made: list[list[int]] = []
    real = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        n = lengths[i]
        if made:
            padded = n * (len(made[-1]) + 1)
            if padded <= batch_tokens and padded - real - n <= padded / 8:
                made[-1].append(i)
                real += n
                continue
        made.append([i])
        real = n
    return made
