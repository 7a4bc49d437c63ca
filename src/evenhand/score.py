"""`evenhand score`: predictions of one's own, made elsewhere, through a benchmark's aggregation."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenhand import tasks
from evenhand.errors import InputError
from evenhand.folder import SCHEMA, RunFolder, entry
from evenhand.metrics.intervals import Resampling
from evenhand.spec import checked


def score(
    task: str,
    predictions: str | Path,
    *,
    data: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    bootstrap: int = 9999,
    seed: int = 0,
    allow_missing: bool = False,
    offline: bool = False,
) -> dict[str, Any]:
    """Scores a file of predictions; returns what results.json holds, and writes a run folder if `out` is given.

    Args:
        task: a benchmark that reads predictions, such as stereoset.
        predictions: the file, in the format of the benchmark's authors.
        data: the gold data the predictions are for; the task's own if None.
        options: the task's options.
        out: a run folder to write.
        bootstrap: draws for the intervals; 0 turns them off.
        seed: their seed.
        allow_missing: score what is there, and say how much of the data that is.
        offline: use only what is on this machine.

    Raises:
        InputError: the task reads no predictions, or the file or the data will not do.
    """
    found = tasks.get(task)
    read, alone = getattr(found, "predicted", None), getattr(found, "predictions", None)
    if read is None and alone is None:
        able = [name for name, t in tasks.known().items() if hasattr(t, "predicted") or hasattr(t, "predictions")]
        raise InputError(f"{task} cannot be scored from predictions; these can: {', '.join(able)}")
    path = Path(predictions)
    checked_options = checked(found.options, dict(options or {}), where=f"--option {task}.")
    if alone is not None:
        if data is not None:
            raise InputError(f"--data {task}: the predictions say what is true; no other data is read")
        items, records, notes = alone(str(path), checked_options)
    elif read is not None:
        items = found.load(checked_options, str(data) if data is not None else None, offline=offline)
        records, notes = read(str(path), items, allow_missing=allow_missing)
    outcome = found.summarise(records, checked_options, Resampling(bootstrap, seed))
    model = {
        "ref": path.name,
        "kind": "predictions",
        "revision": None,
        "fingerprint": hashlib.sha256(path.read_bytes()).hexdigest(),
        "dtype": None,
        "start": None,
        "reads": None,
    }
    result = entry(found.card, "predictions", "predictions", items, records, outcome, notes, checked_options)
    results = {"schema": SCHEMA, "model": model, "tasks": {task: result}, "warnings": []}
    if out is not None:
        folder = RunFolder(Path(out), fresh=False)
        try:
            if folder.previous().get("model", model)["fingerprint"] != model["fingerprint"]:
                raise InputError(f"{out} holds another run; choose another --out")
            folder.write_records(task, records)
            for name, content in outcome.files.items():
                folder.write_json(name, content)
            folder.write_json("run.json", {"model": model, "predictions": str(path)})
            folder.write_json("results.json", results)
        finally:
            folder.close()
    return results
