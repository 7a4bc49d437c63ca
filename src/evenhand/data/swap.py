"""A text with its gendered words swapped, or without them.

Pronouns and titles, by option nouns, or a list of the user's own. Which of two counterparts a word has ("her": him or
his; "his": her or hers) is told by the word that follows; English leaves some cases open ("told her stories").
Swapping pronouns ignores other gendered language.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from evenhand.errors import InputError

Pairs = Sequence[tuple[str, str]]

PRONOUNS: Pairs = (
    ("he", "she"), ("him", "her"), ("his", "her"), ("his", "hers"), ("himself", "herself"),
    ("mr", "ms"), ("mr", "mrs"),
)  # fmt: skip
"""(male, female); of several counterparts, the first where grammar does not tell."""
NOUNS: Pairs = (
    ("man", "woman"), ("men", "women"), ("boy", "girl"), ("boys", "girls"), ("boyfriend", "girlfriend"),
    ("gentleman", "lady"), ("gentlemen", "ladies"), ("father", "mother"), ("fathers", "mothers"), ("dad", "mom"),
    ("grandfather", "grandmother"), ("son", "daughter"), ("sons", "daughters"), ("brother", "sister"),
    ("brothers", "sisters"), ("husband", "wife"), ("husbands", "wives"), ("uncle", "aunt"), ("nephew", "niece"),
    ("king", "queen"), ("prince", "princess"), ("actor", "actress"), ("actors", "actresses"), ("waiter", "waitress"),
    ("host", "hostess"), ("widower", "widow"), ("groom", "bride"), ("businessman", "businesswoman"),
    ("chairman", "chairwoman"), ("spokesman", "spokeswoman"), ("congressman", "congresswoman"),
    ("policeman", "policewoman"), ("male", "female"), ("males", "females"), ("masculine", "feminine"),
    ("sir", "madam"), ("fatherhood", "motherhood"), ("boyhood", "girlhood"),
)  # fmt: skip
LISTS = {"pronouns": PRONOUNS, "nouns": (*PRONOUNS, *NOUNS)}
STANDING_ALONE = frozenset({"him", "hers"})
"""Counterparts that no noun follows."""
FOLLOWERS = frozenset((
    "to", "in", "on", "at", "for", "from", "with", "by", "of", "as", "into", "onto", "about", "after", "before",
    "over", "through", "during", "until", "since", "between", "against", "without", "under", "within", "across",
    "toward", "towards", "upon", "among", "along", "around", "near", "despite", "like", "per", "via", "and", "or",
    "but", "because", "when", "while", "if", "that", "who", "which", "where", "than", "so", "nor", "though",
    "although", "unless", "whether", "how", "what", "why", "a", "an", "the", "this", "these", "those", "his", "her",
    "hers", "its", "their", "my", "our", "your", "some", "any", "every", "each", "another", "he", "she", "they",
    "it", "we", "you", "i", "him", "them", "us", "me", "is", "was", "are", "were", "be", "been", "has", "had",
    "have", "do", "does", "did", "up", "out", "down", "off", "away", "again", "not", "too", "also", "then", "there",
    "here", "very", "both", "everywhere", "anywhere", "now", "today", "later", "soon",
))  # fmt: skip
"""Words before which "her" is the object and "his" stands alone: no noun phrase begins with them."""
NEXT = re.compile(r"\s+[\"'“‘(\[]*(\w[\w'’-]*)")


class Swapped(NamedTuple):
    """A text, and how many of its words were swapped."""

    text: str
    words: int


class Swapper:
    """Swaps or removes the words of a list."""

    def __init__(self, pairs: Iterable[tuple[str, str]], name: str) -> None:
        self.name = name
        self._other: dict[str, list[str]] = {}
        for male, female in pairs:
            for word, counterpart in ((male.lower(), female.lower()), (female.lower(), male.lower())):
                known = self._other.setdefault(word, [])
                if counterpart not in known:
                    known.append(counterpart)
        words = "|".join(re.escape(word) for word in sorted(self._other, key=len, reverse=True))
        self._words = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
        self._scrubbed = re.compile(rf"(?<!\w)(?:{words})(?:['’](?:s|d|ll|ve|re))?(?!\w)", re.IGNORECASE)

    def swap(self, text: str) -> Swapped:
        """The text with every word of the list in its counterpart's place, case kept."""
        return Swapped(*self._words.subn(self._counterpart, text))

    def _counterpart(self, found: re.Match[str]) -> str:
        word = found.group()
        others = self._other[word.lower()]
        other = others[0]
        if len(others) > 1:
            alone = _stands_alone(found.string, found.end())
            other = next((o for o in others if (o in STANDING_ALONE) == alone), other)
        return _cased(other, word)

    def scrub(self, text: str) -> str:
        """The text without the words of the list, and without what looks like a person's name.

        A name is a given name of a list of common ones, with the capitalised words behind it, or the capitalised words
        behind a title.
        """
        for pattern in (*_names(), self._scrubbed):
            text = pattern.sub(" ", text)
        return re.sub(r"\s+([.,;:!?])", r"\1", re.sub(r"\s+", " ", text)).strip() or "."


def _stands_alone(text: str, end: int) -> bool:
    """Whether no noun phrase goes on behind a pronoun that ends at `end`."""
    found = NEXT.match(text, end)
    return found is None or found.group(1).lower() in FOLLOWERS


def _cased(word: str, like: str) -> str:
    """The word in another's case: upper, capitalised, or lower."""
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def load(choice: str) -> Swapper:
    """The swapper for "pronouns", "nouns", or a file with a pair of words a line: male,female (CSV) or by a tab.

    Raises:
        InputError: the file cannot be read or a line is no pair; the message names the line.
    """
    if choice in LISTS:
        return Swapper(LISTS[choice], choice)
    path = Path(choice)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path.name}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise InputError(
            f"swap {choice}: neither {' nor '.join(LISTS)} nor a file ({error.strerror or error})"
        ) from None
    pairs = []
    rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in text else ",")
    for row in rows:
        words = [cell.strip() for cell in row]
        if not any(words) or words[0].startswith("#") or [w.lower() for w in words] == ["male", "female"]:
            continue
        if len(words) != 2 or not all(words):
            raise InputError(f"{path.name}, line {rows.line_num}: a line holds two words, a male and a female one")
        if words[0].lower() == words[1].lower():
            raise InputError(f"{path.name}, line {rows.line_num}: the two words are the same")
        if any(not (w[0].isalnum() and w[-1].isalnum()) for w in words):
            raise InputError(f"{path.name}, line {rows.line_num}: a word begins and ends with a letter")
        pairs.append((words[0], words[1]))
    if not pairs:
        raise InputError(f"{path.name}: has no pair of words")
    return Swapper(pairs, path.name)


@cache
def _names() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What looks like a name: behind a title, or begun by a common given name."""
    raw = files("evenhand").joinpath("data/given_names.txt").read_text(encoding="utf-8")
    given = "|".join(name for line in raw.splitlines() if not line.startswith("#") for name in line.split())
    surname = r"(?:\s+(?:[A-Z]\.|[A-Z][\w'’-]+))"
    titled = rf"\b(?:Mr|Mrs|Ms|Miss)\b\.?{surname}{{0,3}}(?:['’]s)?"
    return re.compile(titled), re.compile(rf"\b(?:{given}){surname}{{0,2}}(?:['’]s)?(?!\w)")
