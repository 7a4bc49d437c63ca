"""Texts to tokens: joins, special tokens, pieces at a span; what is refused."""

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import InputError
from evenhand.models.encode import Encoder

CONTEXT = "The doctor was a"
CHOICES = (" female", " woman", " male", " man")
NO_EOS = ["gpt2", "roberta", "xlmr", "t5", "llama", "gemma", "wordpiece"]


def words(tokenizer, ids):
    return tokenizer.convert_ids_to_tokens(list(ids))


def joint(tokenizer, text):
    """The tokenizer's own encoding of the text, without what it puts behind."""
    bare = tokenizer(text, add_special_tokens=False)["input_ids"]
    dressed = tokenizer(text)["input_ids"]
    behind = len(tokenizer("a")["input_ids"]) - len(tokenizer("a", add_special_tokens=False)["input_ids"])
    front = 1 if dressed[:1] != bare[:1] else 0
    return tuple(dressed[: len(dressed) - (behind - front)])


def one(encoder, context, *choices):
    return encoder.continuations([context], [choices])[0]


def sentences(encoder, texts, contexts, start="always"):
    """Sentences that are one sequence each."""
    return [path for (path,) in encoder.sentences(texts, contexts, [start] * len(texts))]


# --- joins


def test_a_single_token_continuation_is_that_token(tokenizer):
    found = one(Encoder(tokenizer("gpt2")), CONTEXT, " female", " man")
    assert [words(tokenizer("gpt2"), tokens[start:]) for tokens, start in found] == [["Ġfemale"], ["Ġman"]]
    assert [words(tokenizer("gpt2"), tokens[:start]) for tokens, start in found] == [
        ["The", "Ġdoctor", "Ġwas", "Ġa"]
    ] * 2


def test_a_space_that_is_a_token_of_its_own_is_read():
    tokenizer = tiny.merging(("m", "a"), ("ma", "n"))
    ((tokens, start),) = one(Encoder(tokenizer), "was a", " man")
    assert words(tokenizer, tokens[start:]) == [" ", "man"]


def test_a_token_that_spans_the_join_is_read_by_every_choice():
    """ "a" + " woman" gives the token "a w": all choices are read from where the first of them leaves the context."""
    tokenizer = tiny.merging(("a", " "), ("a ", "w"))
    found = one(Encoder(tokenizer), "it is a", " woman", ".", " man")
    assert [words(tokenizer, tokens[start:]) for tokens, start in found] == [
        ["a w", "o", "m", "a", "n"],
        ["a", "."],
        ["a ", "m", "a", "n"],
    ]
    assert {tokens[:start] for tokens, start in found} == {tuple(tokenizer.convert_tokens_to_ids(list("it is ")))}


def test_a_token_that_swallows_all_of_a_context_leaves_it_to_be_read_from_the_start():
    tokenizer = tiny.merging(("a", " "), ("a ", "b"))
    ((tokens, start),) = one(Encoder(tokenizer), "a", " b")
    assert words(tokenizer, tokens) == ["<s>", "a b"]
    assert start == 1


def test_a_trailing_space_in_the_context_reads_the_joint_token(tokenizer):
    tok = tokenizer("gpt2")
    ((tokens, start),) = one(Encoder(tok), "The doctor was a ", "man")
    assert tokens == joint(tok, "The doctor was a man")
    assert words(tok, tokens[start:]) == ["Ġman"]


@pytest.mark.parametrize(
    ("name", "first"), [("gpt2", "<|endoftext|>"), ("llama", "<s>"), ("gemma", "<bos>"), ("t5", "</s>")]
)
def test_an_empty_context_starts_from_bos_else_eos(tokenizer, name, first):
    tok = tokenizer(name)
    ((tokens, start),) = one(Encoder(tok), "", "The doctor")
    assert words(tok, tokens)[0] == first
    assert start == 1
    assert tokens[1:] == tuple(tok("The doctor", add_special_tokens=False)["input_ids"])


def test_empty_and_full_contexts_mix(tokenizer):
    encoder = Encoder(tokenizer("llama"))
    contexts, choices = ["", CONTEXT, ""], [["The"], CHOICES, ["He", "She"]]
    found = encoder.continuations(contexts, choices)
    assert found == [one(encoder, context, *row) for context, row in zip(contexts, choices, strict=True)]
    assert [len(row) for row in found] == [1, 4, 2]


def test_no_texts_are_no_tokens(tokenizer):
    encoder = Encoder(tokenizer("gpt2"))
    assert (
        encoder.continuations([], [])
        == sentences(encoder, [], [])
        == encoder.pieces([], [])
        == encoder.prompts([])
        == []
    )


# --- special tokens


@pytest.mark.parametrize("name", NO_EOS)
def test_what_stands_around_a_text_is_found_by_asking(tokenizer, name):
    tok = tokenizer(name)
    encoder = Encoder(tok)
    around = {
        "gpt2": ([], []), "roberta": (["<s>"], ["</s>"]), "xlmr": (["<s>"], ["</s>"]), "t5": ([], ["</s>"]),
        "llama": (["<s>"], []), "gemma": (["<bos>"], []), "wordpiece": (["[CLS]"], ["[SEP]"]),
    }[name]  # fmt: skip
    assert (words(tok, encoder.prefix), words(tok, encoder.suffix)) == around


@pytest.mark.parametrize("name", ["llama", "gemma"])
@pytest.mark.parametrize("spelled", [False, True])
def test_bos_stands_once(tokenizer, name, spelled):
    tok = tokenizer(name)
    encoder, bos = Encoder(tok), tok.bos_token
    front = bos if spelled else ""
    paths = [
        *one(encoder, front + CONTEXT, *CHOICES),
        *one(encoder, "", front + "The doctor"),
        *sentences(encoder, [front + "The doctor", "He was."], ["", front + "It is."]),
        *((tokens, 1) for tokens in encoder.prompts([front + CONTEXT])),
    ]
    for tokens, start in paths:
        assert tokens.count(tok.bos_token_id) == 1
        assert tokens[0] == tok.bos_token_id
        assert start >= 1


@pytest.mark.parametrize("name", NO_EOS)
def test_eos_is_never_part_of_what_is_read(tokenizer, name):
    tok = tokenizer(name)
    encoder = Encoder(tok)
    ends = {tok.eos_token_id, tok.sep_token_id} - {None}
    paths = [*one(encoder, CONTEXT, *CHOICES), *sentences(encoder, ["The doctor", "man."], ["", CONTEXT])]
    for tokens, start in paths:
        assert not ends & set(tokens[start:])
    for tokens in encoder.prompts([CONTEXT]):
        assert not ends & set(tokens[1:])


def test_the_start_is_named(tokenizer):
    assert [Encoder(tokenizer(name)).start_name for name in ("gpt2", "llama", "t5", "wordpiece")] == [
        "bos", "bos", "eos", None,
    ]  # fmt: skip


# --- sentences and prompts


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma", "t5"])
def test_every_token_of_a_sentence_is_read_the_first_too(tokenizer, name):
    tok = tokenizer(name)
    encoder = Encoder(tok)
    for text in ("man", "The nurse was a man."):
        ((tokens, start),) = sentences(encoder, [text], [""])
        assert start == 1
        assert tokens == (encoder.start, *tok(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma", "t5"])
def test_a_sentence_follows_its_context_after_one_space(tokenizer, name):
    tok = tokenizer(name)
    encoder = Encoder(tok)
    ((tokens, start),) = sentences(encoder, ["He was a nurse."], ["The man."])
    whole = tuple(tok("The man. He was a nurse.", add_special_tokens=False)["input_ids"])
    assert tokens == (encoder.start, *whole)
    assert tok.decode(tokens[start:]).strip() == "He was a nurse."


def test_a_start_that_the_tokenizer_does_not_put_stands_before_the_first_token_only(tokenizer):
    """The policy `tokenizer`: the first token is read behind the start, the others without it."""
    tok = tokenizer("gpt2")
    encoder = Encoder(tok)
    ids = tuple(tok("The nurse was a man.")["input_ids"])
    assert encoder.sentences(["The nurse was a man."], [""], ["tokenizer"]) == [
        [((encoder.start, ids[0]), 1), (ids, 1)]
    ]
    assert encoder.sentences(["."], [""], ["tokenizer"]) == [[((encoder.start, *tok(".")["input_ids"]), 1)]]
    ((tokens, start),) = sentences(encoder, ["He was."], ["The man."], "tokenizer")
    assert tokens == tuple(tok("The man. He was.")["input_ids"])
    assert tok.decode(tokens[start:]) == " He was."


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_both_start_policies_are_one_where_the_tokenizer_puts_bos(tokenizer, name):
    encoder = Encoder(tokenizer(name))
    for text, context in (("The nurse was a man.", ""), ("He was.", "The man."), ("man", "")):
        assert sentences(encoder, [text], [context]) == sentences(encoder, [text], [context], "tokenizer")


def test_a_prompt_keeps_its_start_and_an_empty_one_is_the_start(tokenizer):
    llama, gpt2 = tokenizer("llama"), tokenizer("gpt2")
    assert Encoder(llama).prompts([CONTEXT]) == [tuple(llama(CONTEXT)["input_ids"])]
    assert Encoder(gpt2).prompts([CONTEXT, ""]) == [tuple(gpt2(CONTEXT)["input_ids"]), (gpt2.bos_token_id,)]


# --- pieces


def covered(tok, text, word, at=None):
    start = text.index(word) if at is None else at
    ((tokens, pieces),) = Encoder(tok).pieces([text], [(start, start + len(word))])
    assert tokens == tuple(tok(text)["input_ids"])
    return [words(tok, tokens)[i] for i in pieces]


@pytest.mark.parametrize(
    ("name", "text", "word", "pieces"),
    [
        ("wordpiece", "The doctor was a man.", "The", ["the"]),
        ("wordpiece", "The doctor was a man.", "man", ["man"]),
        ("wordpiece", "(Doctor), he said", "Doctor", ["doctor"]),
        ("wordpiece", "The plumber was a man.", "plumber", ["plum", "##ber"]),
        ("wordpiece", "the CARPENTER", "CARPENTER", ["car", "##pen", "##ter"]),
        ("wordpiece", "Thé doctor", "doctor", ["doctor"]),
        ("wordpiece", "the doctor doctor", "doctor doctor", ["doctor", "doctor"]),
        ("roberta", "The doctor was a man.", "doctor", ["Ġdoctor"]),
        ("roberta", "The doctor was a man.", "The", ["The"]),
        ("roberta", "The doctor was a man.", "man", ["Ġman"]),
        ("roberta", "The carpenter was a man.", "carpenter", ["Ġcar", "pen", "ter"]),
        ("roberta", "The é was", "é", ["Ġ", "Ã", "©"]),
        ("roberta", "was a (man)", "man", ["man"]),
        ("gpt2", "The doctor was a man.", "man", ["Ġman"]),
        ("xlmr", "The doctor was a man.", "man", ["▁man"]),
        ("xlmr", "The doctor was a man.", "doctor", ["▁doctor"]),
        ("xlmr", "man was the doctor", "man", ["▁man"]),
        ("xlmr", "man was a carpenter", "carpenter", ["▁", "c", "ar", "p", "en", "t", "er"]),
        ("xlmr", "carpenter was a man", "carpenter", ["▁", "c", "ar", "p", "en", "t", "er"]),
        ("xlmr", "was a (carpenter)", "carpenter", ["c", "ar", "p", "en", "t", "er"]),
        ("roberta", "was a zebra", "zebra", ["Ġ", "z", "e", "b", "r", "a"]),
        ("gpt2", "was a zebra", "zebra", ["Ġ", "z", "e", "b", "r", "a"]),
        ("roberta", "zebra was", "zebra", ["z", "e", "b", "r", "a"]),
    ],
)
def test_pieces_at_a_span(tokenizer, name, text, word, pieces):
    assert covered(tokenizer(name), text, word) == pieces


def test_leading_space_belongs_to_the_word_in_byte_level_bpe(tokenizer):
    """bias-bench 5: " doctor" and "doctor" are different tokens; a word within a sentence is the first."""
    tok = tokenizer("roberta")
    inside, begin = covered(tok, "a man was", "man"), covered(tok, "man was", "man")
    assert inside == ["Ġman"]
    assert begin != inside


@pytest.mark.parametrize("word", ["zebra", "carpenter", "DOCTOR"])
def test_a_space_that_is_a_token_of_its_own_is_a_words_first_piece_wherever_the_word_stands(tokenizer, word):
    """Where a metaspace stands alone in front of a word's rest, the word has one piece more, at the start too."""
    tok = tokenizer("xlmr")
    begin, inside = covered(tok, f"{word} was a man", word), covered(tok, f"The {word} was a man", word)
    assert begin[0] == "▁"
    assert begin == inside
    assert len(begin) > 1


def test_two_masks_in_one_text_are_not_confused(tokenizer):
    tok = tokenizer("wordpiece")
    text = "The [MASK] was a doctor and [MASK] said"
    ((tokens, pieces),) = Encoder(tok).pieces([text], [(text.index("doctor"), text.index("doctor") + 6)])
    assert tokens.count(tok.mask_token_id) == 2
    assert [words(tok, tokens)[i] for i in pieces] == ["doctor"]
    ((_, pieces),) = Encoder(tok).pieces([text], [(text.rindex("[MASK]"), text.rindex("[MASK]") + 6)])
    assert [words(tok, tokens)[i] for i in pieces] == ["[MASK]"]
    assert pieces.start == max(i for i, token in enumerate(tokens) if token == tok.mask_token_id)


def test_the_second_of_two_equal_words_is_the_one_at_the_span(tokenizer):
    tok = tokenizer("wordpiece")
    text = "man was a man"
    ((tokens, pieces),) = Encoder(tok).pieces([text], [(10, 13)])
    assert list(pieces) == [4]
    assert words(tok, tokens)[4] == "man"


# --- refusals


def test_a_choice_that_adds_nothing_is_refused(tokenizer):
    with pytest.raises(InputError, match="adds no token"):
        one(Encoder(tokenizer("gpt2")), CONTEXT, " man", "")


def test_a_text_over_the_models_length_is_refused_and_shown(tokenizer):
    encoder = Encoder(tokenizer("gpt2"), max_tokens=4)
    assert encoder.prompts(["The man."])
    long = "The doctor was a woman and a man"
    for ask in (
        lambda: encoder.prompts([long]),
        lambda: sentences(encoder, [long], [""]),
        lambda: one(encoder, long, " man"),
        lambda: encoder.pieces([long], [(0, 3)]),
    ):
        with pytest.raises(InputError, match="more than this model's 4, in the text 'The doctor"):
            ask()


def test_the_length_that_is_allowed_is_allowed(tokenizer):
    tok = tokenizer("llama")
    n = len(joint(tok, "The doctor was a man"))
    assert Encoder(tok, max_tokens=n).continuations([CONTEXT], [[" man"]])
    with pytest.raises(InputError, match=f"{n} tokens are more than this model's {n - 1}"):
        Encoder(tok, max_tokens=n - 1).continuations([CONTEXT], [[" man"]])


def test_no_start_token_is_refused_only_where_one_is_needed():
    tokenizer = tiny.merging()
    tokenizer.bos_token = None
    encoder = Encoder(tokenizer)
    assert one(encoder, "a man", " was")
    with pytest.raises(InputError, match="no token to start from"):
        one(encoder, "", "a man")
    with pytest.raises(InputError, match="no token to start from"):
        sentences(encoder, ["a man"], [""])
    with pytest.raises(InputError, match="no token to start from"):
        encoder.prompts([""])


def test_a_span_without_tokens_is_refused(tokenizer):
    with pytest.raises(InputError, match="no token covers ' ' in 'The  man'"):
        Encoder(tokenizer("wordpiece")).pieces(["The  man"], [(3, 4)])


def test_a_tokenizer_without_offsets_is_refused_for_pieces_only(tokenizer):
    class Slow:
        """What the slow tokenizers of transformers are, to the encoder."""

        is_fast = False

        def __init__(self, fast):
            self.fast = fast

        def __getattr__(self, name):
            return getattr(self.fast, name)

        def __call__(self, texts, **options):
            return self.fast(texts, **options)

    encoder = Encoder(Slow(tokenizer("gpt2")))
    assert one(encoder, CONTEXT, " man")
    with pytest.raises(InputError, match="no character offsets"):
        encoder.pieces(["The man"], [(0, 3)])


def test_an_empty_tokenizer_is_refused():
    with pytest.raises(InputError, match="no tokens for 'a'"):
        Encoder(tiny._fast(tiny.Tokenizer(tiny.models.BPE())))


# --- properties

TEXT = st.lists(
    st.sampled_from(["The", "doctor", "was", "a", "woman", "man", "plumber", " ", ".", ", ", "é", "x", "  ", "'s"]),
    max_size=7,
).map(lambda parts: " ".join(parts).replace(" .", "."))
CHOICE = st.sampled_from([*CHOICES, ".", " plumber", "man", "s", " é", "'s", " x.", ", a"])
BUILT = {name: tiny.TOKENIZERS[name]() for name in ("gpt2", "llama", "gemma", "t5", "xlmr")}
BUILT["merging"] = tiny.merging(("a", " "), ("a ", "w"), ("s", " "), ("n", "."), ("a", "n"), ("m", "an"))


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(BUILT)), context=TEXT, choices=st.lists(CHOICE, min_size=1, max_size=4))
def test_prefix_and_continuation_are_the_joint_encoding(name, context, choices):
    tok = BUILT[name]
    encoder = Encoder(tok)
    try:
        found = one(encoder, context, *choices)
    except InputError as error:
        assert "adds no token" in str(error)
        return
    assert len(found) == len(choices)
    alone = joint(tok, context) if context else encoder.prefix
    starts = set()
    for (tokens, start), choice in zip(found, choices, strict=True):
        want = joint(tok, context + choice)
        lead = len(tokens) - len(want)
        assert lead in (0, 1)
        assert tokens[lead:] == want
        assert lead == 0 or (tokens[0] == encoder.start and start == 1)
        assert 1 <= start < len(tokens)
        assert tokens[lead:start] == alone[: start - lead], "what is not read is the context's own"
        starts.add((lead, start))
    (lead, start) = starts.pop()
    assert not starts, "all choices are read from one place"
    if start - lead < len(alone):
        assert any(tokens[start] != alone[start - lead] for tokens, _ in found), "a context token is read without need"


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(BUILT)), texts=st.lists(TEXT.filter(str.strip), min_size=1, max_size=4))
def test_texts_in_a_batch_are_encoded_as_alone(name, texts):
    encoder = Encoder(BUILT[name])
    blank = [""] * len(texts)
    assert sentences(encoder, texts, blank) == [sentences(encoder, [text], [""])[0] for text in texts]
    assert encoder.prompts(texts) == [encoder.prompts([text])[0] for text in texts]
