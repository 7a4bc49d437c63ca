"""Replies of chat models: where one refuses to answer."""

import re

REFUSALS = (
    "i can't", "i cannot", "i can not", "i won't", "i will not", "i'm unable to", "i am unable to", "i'm not able to",
    "i am not able to", "i'm sorry", "i am sorry", "i apologize", "i apologise", "i must decline", "as an ai",
)  # fmt: skip
OPENINGS = ("sorry", "unable to")


def _either(phrases: tuple[str, ...]) -> str:
    """The phrases as whole words, with any apostrophe and any white space."""
    return "|".join(phrase.replace("'", "['\u2019\u2018\u02bc`\u00b4]").replace(" ", r"\s+") for phrase in phrases)


_REFUSAL = re.compile(rf"(?<!\w)(?:{_either(REFUSALS)})(?!\w)|\A\W*(?:{_either(OPENINGS)})(?!\w)", re.IGNORECASE)


def before_refusal(reply: str) -> tuple[str, bool]:
    """What a reply says before it refuses, and whether it does.

    A refusal begins with one of `REFUSALS` anywhere in the reply, or with one of `OPENINGS` at its beginning.
    """
    found = _REFUSAL.search(reply)
    return (reply[: found.start()], True) if found else (reply, False)
