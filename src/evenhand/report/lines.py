"""Text from elsewhere, made safe for a terminal; errors in one line."""

import unicodedata

from evenhand.errors import EvenhandError

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """The text with its control and formatting characters spelled out: data cannot steer the terminal."""
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in UNSAFE else c for c in text)


def told(error: Exception) -> str:
    """An error in one line: evenhand's own say all, the command line parser's too, others are bugs or the machine's."""
    if isinstance(error, EvenhandError):
        return printable(str(error))
    if hasattr(error, "format_message"):
        message = error.format_message()  # empty where the help was printed instead
        return printable(f"{message} (--help says what there is)") if message else ""
    first = (str(error).strip().splitlines() or [""])[0]
    return printable(f"{type(error).__name__}: {first} (--debug shows where)")
