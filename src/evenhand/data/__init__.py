"""Bytes to typed rows: files of the user's, fetched sets, the project's own small sets."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Generic[T]):
    """Typed rows, where they come from, and the hash of the bytes they were read from."""

    rows: tuple[T, ...]
    source: str
    sha256: str
    notes: tuple[str, ...] = field(default=())
