"""The run folder: run.json, results.json, records as Parquet, and the answers so far.

Files are written through a temporary file and a rename. Answers are kept by request and model fingerprint, batch by
batch, so that a run that was killed goes on where it stopped. The answer store is locked while a run is at work.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import InputError
from evenhand.records import Outcome, Record
from evenhand.requests import Answer, Request, dump, key, parse

if TYPE_CHECKING:
    from pydantic import BaseModel

    from evenhand.data import Dataset
    from evenhand.tasks import Card

SCHEMA = 1


def write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def to_json(value: Any) -> str:
    """JSON as it stands in the folder's files: indented, no NaN."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


class RunFolder:
    """An open run folder, held by this process until it is closed."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        """Makes or opens the folder and locks it.

        Raises:
            InputError: it cannot be written, another process has it open, or it holds other things.
        """
        self.path = path
        ours = (".", "run.json", "results.json", "records", "answers", "predictions", "report.html")
        try:
            path.mkdir(parents=True, exist_ok=True)
            strangers = [found.name for found in path.iterdir() if not found.name.startswith(ours)]
            if strangers and not (path / "run.json").exists():
                raise InputError(f"{path} holds other things ({strangers[0]}); choose an empty folder with --out")
            self._store = _opened(path / "answers.sqlite", fresh=fresh)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise InputError(
                    f"{path} is in use by another evenhand run; wait for it or choose another --out"
                ) from None
            raise InputError(f"cannot write to {path}: {error}") from None
        except sqlite3.DatabaseError:
            raise InputError(
                f"{path}/answers.sqlite is not an answer store; --out another folder or delete it"
            ) from None
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror or error}") from None
        if fresh:
            for name in ("run.json", "results.json", "predictions*.json", "report.html"):
                for file in path.glob(name):
                    file.unlink()
            shutil.rmtree(path / "records", ignore_errors=True)

    def close(self) -> None:
        """Lets go of the folder."""
        self._store.close()

    def answers(self, requests: Sequence[Request], model: str) -> dict[Request, Answer]:
        """The answers that are there already."""
        names = {key(request): request for request in requests}
        rows = self._store.execute("SELECT request, answer FROM answers WHERE model = ?", (model,))
        return {names[name]: parse(text) for name, text in rows if name in names}

    def keep(self, answers: Iterable[tuple[Request, Answer]], model: str) -> None:
        """Keeps a batch of answers, all or none."""
        self._store.execute("BEGIN")
        self._store.executemany(
            "INSERT OR IGNORE INTO answers VALUES (?, ?, ?)",
            [(key(request), model, dump(answer)) for request, answer in answers],
        )
        self._store.execute("COMMIT")

    def previous(self) -> dict[str, Any]:
        """results.json as it stands, or an empty mapping."""
        path = self.path / "results.json"
        if not path.exists():
            return {}
        try:
            found = json.loads(path.read_bytes())
        except ValueError:
            raise InputError(f"{path} is not JSON; --fresh begins anew") from None
        return found if isinstance(found, dict) else {}

    def write_json(self, name: str, value: Any) -> None:
        """Writes one of the folder's JSON files."""
        write(self.path / name, to_json(value))

    def write_records(self, task: str, records: Sequence[Record]) -> None:
        """Writes one row per item to records/TASK.parquet."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        (self.path / "records").mkdir(exist_ok=True)
        path = self.path / "records" / f"{task}.parquet"
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            pq.write_table(pa.Table.from_pylist(list(records)), beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def _opened(path: Path, *, fresh: bool) -> sqlite3.Connection:
    """The answer store, locked until it is closed."""
    store = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        store.execute("PRAGMA page_size=16384")  # of a new store: a vector fits in a page beside others
        store.execute("PRAGMA locking_mode=EXCLUSIVE")
        store.execute("BEGIN EXCLUSIVE")
        store.execute(
            "CREATE TABLE IF NOT EXISTS answers "
            "(request TEXT, model TEXT, answer TEXT, PRIMARY KEY (request, model)) WITHOUT ROWID"
        )
        if fresh:
            store.execute("DELETE FROM answers")
        store.execute("COMMIT")
    except BaseException:
        store.close()
        raise
    return store


def entry(
    card: "Card",
    method: str,
    form: str,
    data: "Dataset[Any]",
    records: Sequence[Record],
    outcome: Outcome,
    notes: list[str],
    options: "BaseModel",
) -> dict[str, Any]:
    """A task's entry in results.json."""
    return {
        "version": card.version,
        "method": method,
        "form": form,
        "options": options.model_dump(mode="json"),
        "data": {"source": data.source, "sha256": data.sha256, "n": len(records), **outcome.data},
        "metrics": {name: estimate.to_dict() for name, estimate in outcome.metrics.items()},
        "groups": [
            {"by": g.by, "n": g.n, "metrics": {name: e.to_dict() for name, e in g.metrics.items()}}
            for g in outcome.groups
        ],
        "notes": [*notes, *data.notes, *outcome.notes],
        "context": outcome.context,
    }


def read_results(path: Path) -> dict[str, Any]:
    """What results.json holds in a run folder, or in a file of its kind.

    Raises:
        InputError: there is none, or it is not one that this version reads.
    """
    file = path / "results.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"{path} is no run folder: cannot read {file}: {error.strerror or error}") from None
    except ValueError:
        raise InputError(f"{file} is not JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("tasks"), dict) or "model" not in found:
        raise InputError(f"{file} is not evenhand's results.json")
    if found.get("schema") != SCHEMA:
        raise InputError(f"{file} has schema {found.get('schema')!r}; this version reads {SCHEMA}")
    return found


def read_records(path: Path, task: str) -> list[Record]:
    """The rows of records/TASK.parquet in a run folder.

    Raises:
        InputError: there is no such file.
    """
    import pyarrow.parquet as pq

    file = path / "records" / f"{task}.parquet"
    if not file.is_file():
        raise InputError(f"no records of {task!r} in {path}")
    rows: list[Record] = pq.read_table(file).to_pylist()
    return rows
