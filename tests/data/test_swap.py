"""Gendered words swapped: by hand, and by properties."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.data import swap
from evenhand.errors import InputError

PRONOUNS, NOUNS = swap.load("pronouns"), swap.load("nouns")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("He's sure that she'll see him.", "She's sure that he'll see her."),
        ("he’d said she’s late", "she’d said he’s late"),
        ("Her book is on her desk.", "His book is on his desk."),
        ("I saw her.", "I saw him."),
        ("I saw her and left.", "I saw him and left."),
        ("Give her the keys to her car, for her and hers.", "Give him the keys to his car, for him and his."),
        ("The house is his, not hers.", "The house is hers, not his."),
        ("his in-depth study of HIS own", "her in-depth study of HER own"),
        ("It is his.\nHis cat sleeps", "It is hers.\nHer cat sleeps"),
        ("a friend of his who paints", "a friend of hers who paints"),
        ("himself, HERSELF, Himself", "herself, HIMSELF, Herself"),
        ("Mr. Lee met Mrs. Roe and Ms Day; MR X", "Ms. Lee met Mr. Roe and Mr Day; MS X"),
        ('her "best" work', 'his "best" work'),
        ("(her) her)", "(him) him)"),
        ("manager, human, this, the, there", "manager, human, this, the, there"),
        ("hers-to-be, sheep, ushers", "his-to-be, sheep, ushers"),
        ("he/she and his/her", "she/he and hers/him"),
        ("", ""),
    ],
)  # fmt: skip
def test_by_hand(text, want):
    assert PRONOUNS.swap(text).text == want


def test_words_are_counted_and_a_text_without_any_stays():
    assert PRONOUNS.swap("He gave her his hat.").words == 3
    assert PRONOUNS.swap("They gave them the hat.") == ("They gave them the hat.", 0)


def test_nouns_are_swapped_only_where_asked():
    text = "Her husband, a businessman, is the father of two boys; his mother-in-law is a woman of means."
    want = "His wife, a businesswoman, is the mother of two girls; her father-in-law is a man of means."
    assert NOUNS.swap(text).text == want
    assert PRONOUNS.swap("The woman is an actress.") == ("The woman is an actress.", 0)


NEUTRAL = st.sampled_from(
    [
        "The",
        "doctor",
        "the-case,",
        "12",
        "years;",
        "manager",
        "human",
        "Sheila",
        "ushers",
        "THE",
        "theirs",
        "they'd",
        "museum",
        "émigré",
        "ISO-9000",
        "a",
    ]
)
SURE = st.sampled_from(
    ["he", "she", "He's", "she'll", "HE", "SHE", "himself", "Herself", "Mr. Kay", "Ms. Kay", "his book", "her book",
     "His own", "saw her.", "saw him.", "saw him and", "for her to", "the book is hers.", "is his,", "HIS hat"]
)  # fmt: skip
UNAMBIGUOUS = st.lists(st.one_of(NEUTRAL, SURE), max_size=20).map(" x ".join)


@given(UNAMBIGUOUS)
def test_twice_is_the_original_where_the_language_allows(text):
    assert PRONOUNS.swap(PRONOUNS.swap(text).text).text == text


@given(st.text(alphabet="hersim 'HSM.,-x\n", max_size=60))
def test_what_is_not_a_word_of_the_list_stays_and_case_is_kept(text):
    swapped, words = PRONOUNS.swap(text)
    before, after = re.findall(r"\w+", text), re.findall(r"\w+", swapped)
    assert len(before) == len(after)
    listed = {word for pair in swap.PRONOUNS for word in pair}
    assert words == sum(word.lower() in listed for word in before)
    for old, new in zip(before, after, strict=True):
        assert (old.lower() in listed) == (new.lower() in listed) == (old != new)
        assert old[0].isupper() == new[0].isupper()
        if old.isupper() and len(old) > 1:
            assert new.isupper()
    assert re.sub(r"\w+", "", text) == re.sub(r"\w+", "", swapped)


@given(UNAMBIGUOUS)
def test_swapping_changes_as_many_words_back(text):
    once = PRONOUNS.swap(text)
    assert PRONOUNS.swap(once.text).words == once.words


@given(UNAMBIGUOUS)
def test_a_scrubbed_text_has_no_word_of_the_list(text):
    assert PRONOUNS.swap(PRONOUNS.scrub(text)).words == 0


def test_scrubbing_takes_names_and_pronouns():
    text = "Mr. Halden was born in Rome. Mary Ann O'Neill said she's met his friend Zed; Ms. Q. Day's class."
    assert PRONOUNS.scrub(text) == "was born in Rome. said met friend Zed; class."
    assert PRONOUNS.scrub("She.") == "." and PRONOUNS.scrub("she") == "."


# --- lists of the user's own


def test_a_list_of_one_s_own(table):
    own = swap.load(str(table("male,female\n# family\nking,queen\nhis,her\nhim,her\npolice man,police woman\n")))
    assert own.swap("The King saw her; her queen saw him and a police man.").text == (
        "The Queen saw him; his king saw her and a police woman."
    )
    assert own.swap("he").words == 0
    tabbed = swap.load(str(table("ele\tela\n", "w.tsv")))
    assert tabbed.swap("Ele viu ela.").text == "Ela viu ele."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\nc\n", "line 2: a line holds two words"),
        ("a,b,c\n", "line 1: a line holds two words"),
        ("a,\n", "line 1: a line holds two words"),
        ("he,HE\n", "line 1: the two words are the same"),
        ("he,she!\n", "line 1: a word begins and ends with a letter"),
        ("", "has no pair"),
        (b"\xff,\xfe", "not UTF-8"),
    ],
)
def test_a_list_that_will_not_do(table, text, said):
    with pytest.raises(InputError, match=re.escape(said)):
        swap.load(str(table(text, "words.csv")))


def test_neither_a_list_nor_a_file():
    with pytest.raises(InputError, match="neither pronouns nor nouns nor a file"):
        swap.load("pronoun")


def test_a_list_is_one_to_one_or_grammar_decides():
    for pairs in swap.LISTS.values():
        for male, female in pairs:
            assert male != female and male == male.lower() and female == female.lower()
