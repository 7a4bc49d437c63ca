"""Where a server's tokens stand in the text it was given.

Servers differ in what stands in front of a text, in how they show the bytes of a character, and in what their offsets
count. Every token is held against the text; what does not fit is an error.
"""

import itertools
import re
from collections.abc import Sequence

from evenhand.errors import ModelError

UNKNOWN = "\ufffd"
NOT_ASCII = "[^\x00-\x7f]"
SHOWN = 40
MOST_IN_FRONT = 3
WRITTEN = (1, 0, 2, 3, 4)
"""How many tokens a server may have written behind the text when asked for one; the usual number first."""

Span = tuple[int, int]


def shown(text: str) -> str:
    """A text's beginning."""
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r}..."


def aligned(text: str, tokens: Sequence[str | None], offsets: Sequence[int] | None) -> tuple[int, list[Span]]:
    """How many tokens stand in front of the text, and the characters of each that is in it.

    Offsets are places in the text, moved by what stands in front of it; or sums of the lengths of the tokens' strings,
    which are other places where a string is not what the text has. A string is what the text has at its place, but for
    U+FFFD, or nothing, in place of bytes of a character; pieces of a character all get the characters they share. A
    decoder may leave out the space in front of a token. Tokens written behind the text, which come with offsets only,
    are left out.

    Args:
        text: as it was sent.
        tokens: their strings in order; None at the first if the server does not say.
        offsets: as the server returned them, or None where it returns none.

    Raises:
        ModelError: a token does not fit, or fits in more than one way.
    """
    if offsets is None:
        found = _spelling(text, tokens, (0,))
    else:
        # Sums of lengths can be mistaken for places where one U+FFFD stands for a character's first byte.
        sums = _sums(tokens, offsets)
        found = _placed(text, tokens, offsets, exact=sums) or (_spelling(text, tokens, WRITTEN) if sums else None)
    if found is None:
        raise ModelError(f"the server's tokens do not fit the text {shown(text)}: see {_stray(text, tokens)!r}")
    return found


def _placed(
    text: str, tokens: Sequence[str | None], offsets: Sequence[int], *, exact: bool
) -> tuple[int, list[Span]] | None:
    """By offsets that are places in the text; some tokenizers put a space of their own in front of it."""
    for in_front in range(min(MOST_IN_FRONT, len(tokens))):
        for space in ("", " "):
            whole = space + text
            starts = [offset - offsets[in_front] for offset in offsets[in_front:]]
            inside = [start for start in starts if start < len(whole)]
            bounds = [*inside, starts[len(inside)] if len(inside) < len(starts) else len(whole)]
            if starts[: len(inside)] != inside or bounds != sorted(bounds) or bounds[-1] != len(whole):
                continue
            pieces = list(zip(tokens[in_front:], itertools.pairwise(bounds), strict=False))
            if all(
                token == whole[low:high] or (not exact and _is(token or "", whole[low:high]))
                for token, (low, high) in pieces
            ):
                spans = [(max(0, low - len(space)), max(0, high - len(space))) for _, (low, high) in pieces]
                blank = next((i for i, (token, _) in enumerate(pieces) if token), 0)
                if spans and spans[blank][0] == 0 and pieces[blank][0] == whole[slice(*pieces[blank][1])]:
                    return in_front + blank, spans[blank:]  # special tokens may be shown as nothing
                return in_front, spans
    return None


def _is(token: str, piece: str) -> bool:
    """Whether a token's string is what the text has, but for bytes of characters."""
    parts = [re.escape(part) for part in re.split(f"{UNKNOWN}+", token)]
    return re.fullmatch(f"{NOT_ASCII}*" + f"{NOT_ASCII}*".join(parts), piece) is not None


def _sums(tokens: Sequence[str | None], offsets: Sequence[int]) -> bool:
    return all(b - a == len(token or "") for token, (a, b) in zip(tokens, itertools.pairwise(offsets), strict=False))


def _spelling(text: str, tokens: Sequence[str | None], behind: Sequence[int]) -> tuple[int, list[Span]] | None:
    """By the strings in their order, where only one way of cutting the text fits them."""
    if len(tokens) > 1 and tokens[0] is None and (tokens[1] or UNKNOWN).startswith(UNKNOWN):
        return None  # the first may be a piece of the same character, or nothing
    places = [(in_front, space) for in_front in range(min(MOST_IN_FRONT, len(tokens))) for space in ("", " ")]
    for bare, (in_front, space), written in itertools.product((False, True), places, behind):
        used = tokens[in_front : len(tokens) - written]
        found = _cut(space + text, used, bare=bare) if used else None
        if found:
            spans = [(max(0, low - len(space)), max(0, high - len(space))) for low, high in found]
            hidden = used[0] is None and found[0][1] == 0  # the first, of which the server says nothing
            return in_front + hidden, spans[hidden:]
    return None


def _cut(text: str, tokens: Sequence[str | None], *, bare: bool) -> list[Span] | None:
    spans = _matched(text, tokens, bare=bare, lazy=True)
    if spans is not None and spans != _matched(text, tokens, bare=bare, lazy=False):
        raise ModelError(f"the server's tokens fit the text {shown(text)} in more than one way")
    return spans


def _matched(text: str, tokens: Sequence[str | None], *, bare: bool, lazy: bool) -> list[Span] | None:
    """The characters of each token, by a pattern of all: known parts, and runs of pieces of characters.

    `bare`: strings may lack the space in front of them. `lazy`: what is open takes as little of the text as it can.
    """
    few = "?" if lazy else ""
    pattern, owners = [], []
    run: list[int] = []

    def close() -> None:
        if run:
            low = 1 if any(tokens[i] for i in run) else 0
            most = len(run) if UNKNOWN in text else len(run) - 1  # a character has at least two pieces
            pattern.append(f"({NOT_ASCII}{{{low},{most}}}{few})" if low <= most else "((?!))")
            owners.append(tuple(run))
            run.clear()

    for i, token in enumerate(tokens):
        if token is None:
            pattern.append(rf"([\s\S]*{few})")
            owners.append((i,))
            continue
        for part in re.split(f"({UNKNOWN}+)", token) if token else [""]:
            if part.startswith(UNKNOWN) or not token:
                run.append(i)
            elif part:
                close()
                space = f" ?{few}" if bare and token.startswith(part) and not part[0].isspace() else ""
                pattern.append(f"({space}{re.escape(part)})")
                owners.append((i,))
    close()
    match = re.fullmatch("".join(pattern), text)
    if match is None:
        return None
    found: dict[int, Span] = {}
    for group, those in enumerate(owners, 1):
        for i in those:
            low, high = found.get(i, match.span(group))
            found[i] = (min(low, match.start(group)), max(high, match.end(group)))
    return [found[i] for i in range(len(tokens))]


def _stray(text: str, tokens: Sequence[str | None]) -> str:
    """The first token that is not in the text behind the one before it."""
    at = 0
    for i, token in enumerate(tokens):
        where = text.find(token or "", at)
        if where >= 0:
            at = where + len(token or "")
        elif at or i >= MOST_IN_FRONT - 1:
            return token or ""
    return (tokens[-1] or "") if tokens else ""
