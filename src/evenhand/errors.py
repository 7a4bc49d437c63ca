"""The error tree.

Every error evenhand raises on purpose is one of these, with a message of one or two lines: what, where, what to do.

    EvenhandError
    ├── InputError           the user's input is wrong                    exit code 2
    │   └── UnsupportedError this model cannot answer what the task asks   exit code 2
    └── ModelError           the model or a service failed                 exit code 3
"""

from collections.abc import Iterable
from difflib import get_close_matches


class EvenhandError(Exception):
    """Root of the tree; `exit_code` is what the command line leaves with."""

    exit_code = 3


class InputError(EvenhandError):
    """What the user gave is wrong: a name, a file, a value, a folder."""

    exit_code = 2


class UnsupportedError(InputError):
    """The model cannot answer the kind of request that the task needs."""


class ModelError(EvenhandError):
    """The model, or the service that serves it, failed or gave something that is no answer."""

    exit_code = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence naming what there is, the name nearest to `name` first in mind."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else "there is: " + ", ".join(names)
