"""Tokens against the text they come from: servers' ways of showing them, and what a real one said."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import InputError, ModelError
from evenhand.models.align import aligned
from evenhand.models.echo import Spelled, Token, alone, joined

# What llama-cpp-python 0.3.36 said to "Zoë said “hi” 😀🤷🏽 ok": Gemma 3, and SmolLM2, whose characters fall into bytes
SAID = "Zoë said “hi” 😀🤷🏽 ok"
GEMMA = (
    ["Zo", "ë", " said", " “", "hi", "”", " 😀", "🤷", "🏽", " ok", ","],
    [0, 2, 3, 8, 10, 12, 13, 15, 16, 17, 20],
)
SMOLLM = (
    ["Z", "o", "ë", " said", " “", "hi", "”", " ", "", "", "", "", "", "", "", " ok"],
    [0, 1, 2, 3, 8, 10, 12, 13, 14, 15, 15, 15, 16, 16, 16, 17],
)


def test_what_a_real_server_said():
    in_front, spans = aligned(SAID, *GEMMA)
    assert in_front == 0 and [SAID[slice(*span)] for span in spans] == GEMMA[0][:-1]
    in_front, spans = aligned(SAID, *SMOLLM)
    assert in_front == 0 and spans[:8] == [(0, 1), (1, 2), (2, 3), (3, 8), (8, 10), (10, 12), (12, 13), (13, 14)]
    assert spans[8:] == [(14, 15), (15, 15), (15, 15), (15, 16), (16, 16), (16, 16), (16, 17), (17, 20)]


@pytest.mark.parametrize(
    ("text", "tokens", "offsets", "in_front", "spans"),
    [
        ("It is", ["It", " is", " so"], [0, 2, 5], 0, [(0, 2), (2, 5)]),
        ("It is", ["<bos>", "It", " is", " so"], [0, 5, 7, 10], 1, [(0, 2), (2, 5)]),
        ("It is", ["", "It", " is"], [0, 0, 2], 1, [(0, 2), (2, 5)]),  # a start token shown as nothing
        ("It is", ["[g]", "<s>", "It", " is"], [0, 3, 6, 8], 2, [(0, 2), (2, 5)]),
        ("It is", [" It", " is", "!"], [0, 3, 6], 0, [(0, 2), (2, 5)]),  # a tokenizer's own space in front
        ("It is", ["<s>", "It", "is"], [0, 3, 5], 1, [(0, 2), (2, 5)]),  # a decoder that leaves spaces out
        ("It is", [None, "It", " is"], None, 1, [(0, 2), (2, 5)]),
        ("It is", [None, " is"], None, 0, [(0, 2), (2, 5)]),
        ("It is", [None, " It", " is"], None, 1, [(0, 2), (2, 5)]),
        ("It is", [None, " ", "It", " is"], None, 1, [(0, 0), (0, 2), (2, 5)]),  # that space is a token like others
        ("It is", ["<s>", " ", "It", " is", "!"], [0, 3, 4, 6, 9], 1, [(0, 0), (0, 2), (2, 5)]),
        ("a é b", ["a", " \ufffd", "\ufffd", " b", "?"], [0, 1, 3, 4, 6], 0, [(0, 1), (1, 3), (2, 3), (3, 5)]),
        ("a é b", ["a", " ", "é", " b", "?"], [0, 1, 2, 3, 5], 0, [(0, 1), (1, 2), (2, 3), (3, 5)]),
        ("é", ["<s>", "\ufffd", "\ufffd", "\ufffd"], [0, 3, 4, 5], 1, [(0, 1), (0, 1)]),
        ("éé", ["\ufffd", "\ufffd", "é", "."], [0, 1, 2, 3], 0, [(0, 1), (0, 1), (1, 2)]),
        ("a\ufffdb", ["a", "\ufffd", "b"], None, 0, [(0, 1), (1, 2), (2, 3)]),
        ("It", ["It", "", ""], [0, 2, 2], 0, [(0, 2)]),
    ],
)
def test_ways_of_showing_tokens(text, tokens, offsets, in_front, spans):
    assert aligned(text, tokens, offsets) == (in_front, spans)


@pytest.mark.parametrize(
    ("text", "tokens", "offsets", "message"),
    [
        ("It is so", ["It", " was", " so"], [0, 2, 6], "'It is so': see ' was'"),
        ("It is so", ["It", " is"], [0, 2], "'It is so': see ' is'"),
        ("It is so", ["It", " is", " so"], [0, 2, 4], "do not fit"),
        ("It is so", ["It", " is", " so"], [0, 3, 6], "do not fit"),
        ("It is so", ["It", " so", " is"], [0, 2, 5], "do not fit"),
        ("It is so", ["IT", " is", " so"], [0, 2, 5], "do not fit"),
        ("It is so", ["<a>", "<b>", "<c>", "It", " is", " so"], [0, 3, 6, 9, 11, 14], "see '<c>'"),
        ("It is so", [], [], "do not fit"),
        ("It is so", ["", "", ""], [0, 0, 0], "do not fit"),
        ("xé", ["x", "\ufffd"], [0, 1], "do not fit"),  # a character has two pieces at least
        ("éééé", ["\ufffd"] * 3 + ["é"] + ["\ufffd"] * 3, None, "more than one way"),
        ("x" * 50, ["y"], [0], f"{'x' * 40!r}\\.\\.\\.: see 'y'"),
    ],
)
def test_what_does_not_fit_is_named(text, tokens, offsets, message):
    with pytest.raises(ModelError, match=message):
        aligned(text, tokens, offsets)


TEXTS = st.text(st.sampled_from("ab Z.\né€😀ëß"), min_size=1, max_size=12)
BEHIND = st.sampled_from([b"", b" and", b"\xf0\x9f", "é".encode()])


@st.composite
def tokenized(draw):
    """A text, the bounds of its tokens in bytes, and a token behind it."""
    text = draw(TEXTS)
    raw = text.encode()
    inner = draw(st.sets(st.integers(1, max(1, len(raw) - 1)), max_size=len(raw)))
    bounds = [0, *sorted(x for x in inner if x < len(raw)), len(raw)]
    return text, bounds, draw(BEHIND)


def characters(text, n):
    """How many characters are whole in the first n bytes."""
    return len(text.encode()[:n].decode("utf-8", "ignore"))


@settings(max_examples=600, deadline=None)
@given(tokenized(), st.sampled_from([0, 5]))
def test_places_are_found_again(case, moved):
    """Offsets that count whole characters, bytes left out of strings: llama.cpp's way."""
    text, bounds, behind = case
    raw = text.encode()
    tokens = [raw[a:b].decode("utf-8", "ignore") for a, b in itertools.pairwise(bounds)]
    offsets = [characters(text, a) + moved for a in bounds]
    true = [(characters(text, a), characters(text, b)) for a, b in itertools.pairwise(bounds)]
    whole = all(characters(text, x) == len(raw[:x].decode("utf-8", "replace")) for x in bounds)
    try:
        found = aligned(text, [*tokens, behind.decode("utf-8", "ignore")], offsets)
    except ModelError:
        assert not whole
        return
    assert found == (0, true)


@settings(max_examples=600, deadline=None)
@given(tokenized(), st.sampled_from(["<bos>", None]), st.booleans())
def test_strings_are_found_again(case, bos, listed):
    """Offsets that are sums of lengths, or none: vLLM's ways. Pieces of a character get at least what they are of."""
    text, bounds, behind = case
    raw = text.encode()
    pairs = list(itertools.pairwise(bounds))
    tokens = [raw[a:b].decode("utf-8", "replace") for a, b in pairs]
    shown = [bos, *tokens] if bos is not None else list(tokens)
    if listed:
        shown[0] = None
        offsets = None
    else:
        shown.append(behind.decode("utf-8", "replace"))
        offsets = [sum(map(len, shown[:i])) for i in range(len(shown))]
    split = any(x != len(raw[:x].decode("utf-8", "ignore").encode()) for x in bounds)
    try:
        in_front, spans = aligned(text, shown, offsets)
    except ModelError:
        assert split  # only pieces of characters can leave it open
        return
    assert in_front == (bos is not None) and len(spans) == len(tokens)
    for token, (a, b), span in zip(tokens, pairs, spans, strict=True):
        if "\ufffd" not in token:
            assert span == (characters(text, a), characters(text, b))
        else:
            inside = raw[a:b].decode("utf-8", "ignore")
            assert span[0] <= characters(text, a) and span[1] >= characters(text, b)
            assert inside in text[slice(*span)]


# --- what is read


def said(*pieces, first=None):
    """A text's tokens from its pieces; the value of number i is -i, or the first's as given."""
    at, tokens = 0, []
    for i, piece in enumerate(pieces):
        tokens.append(Token(at, at + len(piece), first if i == 0 else -float(i), piece))
        at += len(piece)
    return Spelled(0, tuple(tokens))


@pytest.mark.parametrize(
    ("context", "texts", "read"),
    [
        ("It is a", [("It", " is", " a", " man"), ("It", " is", " a", " wo", "man")], [(-3,), (-3, -4)]),
        # a token spans the join in one choice: the other is read from there too
        ("It is a", [("It", " is", " a m", "an"), ("It", " is", " a", " man")], [(-2, -3), (-2, -3)]),
        # the context is cut otherwise in one choice, with no token over the join
        ("It is a", [("It", " i", "s", " a", " man"), ("It", " is", " a", " dog")], [(-1, -2, -3, -4), (-1, -2, -3)]),
        ("It is a", [("It", " is", " a", " man")], [(-3,)]),
        ("It is ", [("It", " is", " a", " man")], [(-2, -3)]),
        ("It is", [("It", " is ", "a")], [(-1, -2)]),
    ],
)
def test_all_choices_are_read_from_one_place(context, texts, read):
    spelled = [said(*pieces) for pieces in texts]
    assert joined(context, ["".join(pieces)[len(context) :] for pieces in texts], spelled) == tuple(read)


def test_what_cannot_be_read_is_named():
    with pytest.raises(InputError, match="continuation '' of 'It is' adds no token"):
        joined("It is", ["", "!"], [said("It", " is"), said("It", " is", "!")])
    with pytest.raises(InputError, match="no log-probability of a text's first token, so 'Its'"):
        joined("I", ["ts"], [said("Its", ".")])
    with pytest.raises(InputError, match="'It' has no other"):
        alone("It", said("It"))
    assert alone("It is", said("It", " is")) == (-1,)
    assert alone("It is", said("It", " is", first=-0.5)) == (-0.5, -1)
    assert joined("", ["It", "He"], [said("It", first=-0.5), said("H", "e", first=-0.5)]) == ((-0.5,), (-0.5, -1))


@given(tokenized())
def test_what_is_kept_comes_back(case):
    text, bounds, _ = case
    pieces = tuple(Token(a, b, None if not a else -a / 3, text) for a, b in itertools.pairwise(bounds))
    spelled = Spelled(1, pieces)
    assert Spelled.of(spelled.kept()) == spelled
