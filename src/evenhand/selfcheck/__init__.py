"""`evenhand selfcheck`: models whose bias is known, measured through the whole pipeline.

Each model is written down as a script, in a temporary folder, and goes through `evenhand.run`; predictions go through
`evenhand.score`. What must come out is worked out in this folder in plain arithmetic, apart from `evenhand.metrics`.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from evenhand.selfcheck import bios, census, cooccurrence, stereoset
from evenhand.selfcheck.checks import Check

Part = Callable[[Path], list[Check]]
PARTS: tuple[Part, ...] = (*cooccurrence.PARTS, *stereoset.PARTS, *census.PARTS, *bios.PARTS)


def selfcheck() -> list[Check]:
    """Every check, in under 30 seconds and without a network."""
    return [check for part in PARTS for check in checked(part)]


def checked(part: Part) -> list[Check]:
    """The checks of one part; a part that cannot be run is a check that fails."""
    with tempfile.TemporaryDirectory(prefix="evenhand-selfcheck-") as folder:
        try:
            return part(Path(folder))
        except Exception as error:
            name = getattr(part, "__name__", "part").replace("_", " ")
            return [Check(name, "no error", f"{type(error).__name__}: {error}", passed=False)]
