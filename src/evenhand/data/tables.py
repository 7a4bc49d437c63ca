"""Files of rows with named columns: CSV, TSV, JSON Lines, Parquet. A fault names file, row and column.

Values are shown in messages only where they are short: a column that was named by mistake may hold a person's text.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evenhand.errors import InputError, nearest

SHORT = 24


def shown(value: Any) -> str:
    """A value as it may stand in a message: itself if it is short and of few words, else what it is."""
    if isinstance(value, str):
        short = len(value) <= SHORT and len(value.split()) <= 3
        return repr(value) if short else f"a text of {len(value)} characters"
    return repr(value) if value is None or isinstance(value, bool | int | float) else f"a {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Table:
    """The columns that were asked for, whole; `lines` are the rows' lines, where the file has lines."""

    name: str
    sha256: str
    columns: dict[str, Sequence[Any]]
    lines: Sequence[int] | None

    def __len__(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def place(self, row: int, column: str | None = None) -> str:
        """File, row from 1, line and column, for a message."""
        return _place(self.name, row, self.lines[row] if self.lines is not None else None, column)

    def refuse(self, row: int, column: str, why: str) -> NoReturn:
        """Raises the InputError that names the place."""
        raise InputError(f"{self.place(row, column)}: {why}")

    def text(self, column: str) -> list[str]:
        """A column's values as texts that are not empty, without white space around; numbers as they are written."""
        found = []
        for row, value in enumerate(self.columns[column]):
            if isinstance(value, bool) or not isinstance(value, str | int):
                self.refuse(row, column, f"{'nothing' if value is None else shown(value)} where a text belongs")
            written = str(value).strip()
            if not written:
                self.refuse(row, column, "is empty")
            found.append(written)
        return found


def _place(name: str, row: int, line: int | None, column: str | None) -> str:
    where = f"{name}, row {row + 1}" + (f" (line {line})" if line is not None else "")
    return where + (f", column {column!r}" if column else "")


def read(path: Path, required: Iterable[str], optional: Iterable[str] = ()) -> Table:
    """The columns of a file by its ending: .csv, .tsv, .jsonl (or .ndjson), .parquet.

    Args:
        path: the file.
        required: columns that must be there.
        optional: columns that are read where they are there.

    Raises:
        InputError: the file cannot be read, a column is missing, a row is not of the file's shape, or there are none.
    """
    required, optional = list(required), list(optional)
    readers = {".csv": _delimited, ".tsv": _delimited, ".jsonl": _lines, ".ndjson": _lines, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path.name}: its name should end in .csv, .tsv, .jsonl or .parquet")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    columns, lines = reader(path, raw, required, optional)
    table = Table(path.name, hashlib.sha256(raw).hexdigest(), columns, lines)
    if not len(table):
        raise InputError(f"{path.name}: has no rows")
    return table


def _wanted(name: str, there: Sequence[str], required: list[str], optional: list[str]) -> list[str]:
    for column in required:
        if column not in there:
            raise InputError(
                f"{name}: no column {column!r}; {nearest(column, [c[:40] for c in there[:20]] or ['none'])}"
            )
    return [*required, *(column for column in optional if column in there and column not in required)]


def _decoded(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start)
        raise InputError(f"{name}, line {row + 1}: not UTF-8 (byte {error.start}); save the file as UTF-8") from None


Read = tuple[dict[str, Sequence[Any]], Sequence[int] | None]


def _delimited(path: Path, raw: bytes, required: list[str], optional: list[str]) -> Read:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    rows = csv.reader(io.StringIO(_decoded(path.name, raw), newline=""), delimiter=delimiter, strict=True)
    lines: list[int] = []
    try:
        header = [title.strip() for title in next(rows, [])]
        wanted = _wanted(path.name, header, required, optional)
        at = [header.index(column) for column in wanted]
        columns: list[list[str]] = [[] for _ in wanted]
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                place = _place(path.name, len(lines), rows.line_num, None)
                raise InputError(f"{place}: {len(row)} columns where the first line has {len(header)}")
            for column, i in zip(columns, at, strict=True):
                column.append(row[i])
            lines.append(rows.line_num)
    except csv.Error as error:
        raise InputError(f"{_place(path.name, len(lines), rows.line_num, None)}: not a row: {error}") from None
    return dict(zip(wanted, columns, strict=True)), lines


def _lines(path: Path, raw: bytes, required: list[str], optional: list[str]) -> Read:
    wanted: list[str] | None = None
    columns: dict[str, list[Any]] = {}
    lines: list[int] = []
    for number, line in enumerate(_decoded(path.name, raw).split("\n"), 1):
        if not line.strip():
            continue
        place = _place(path.name, len(lines), number, None)
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{place}: not JSON: {getattr(error, 'msg', 'a number or text that cannot be')}") from None
        if not isinstance(row, dict):
            raise InputError(f"{place}: {shown(row)} where an object belongs")
        if wanted is None:
            wanted = _wanted(path.name, list(row), required, optional)
            columns = {column: [] for column in wanted}
        for column in wanted:
            if column not in row:
                raise InputError(f"{_place(path.name, len(lines), number, column)}: the row has no such key")
            columns[column].append(row[column])
        lines.append(number)
    found: dict[str, Sequence[Any]] = {column: columns.get(column, []) for column in wanted or required}
    return found, lines


def _parquet(path: Path, raw: bytes, required: list[str], optional: list[str]) -> Read:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(raw))
        wanted = _wanted(path.name, file.schema_arrow.names, required, optional)
        table = file.read(columns=wanted)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path.name}: not a Parquet file that can be read ({type(error).__name__})") from None
    return {column: table.column(column).to_pylist() for column in wanted}, None
