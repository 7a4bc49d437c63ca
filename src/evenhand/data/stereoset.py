"""StereoSet's gold files, and predictions in its authors' format.

Nadeem, Bethke and Reddy 2020 (arXiv 2004.09456). The sentences are CC BY-SA 4.0 and no part of this project:
they are fetched, or read from a file of the user's. "mini" is the project's own small set of the same shape.
"""

import gzip
import hashlib
import json
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from evenhand.data import Dataset
from evenhand.errors import InputError

FORMATS = ("intrasentence", "intersentence")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
MINI = "stereoset-mini"
PUBLISHED = {
    "73a0f31b711688112602e4c3ac6ab1e1a7cadcdd67df6c6fd55501c889676c90": "dev",
    "f3f70d1880b443388744958d192c25364d68c2b8ae7aeb9174903bcf415c394e": "test",
}
"""SHA-256 of the published files without carriage returns, and their splits."""
LIMIT = 256 * 2**20
"""Bytes read at most, decompressed; the published test set has 47 million."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One of an example's three sentences; `label` is one of LABELS."""

    id: str
    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Example:
    """A context and its three sentences in the order of LABELS; `format` is one of FORMATS."""

    id: str
    target: str
    bias_type: str
    context: str
    format: str
    sentences: tuple[Sentence, ...]


class Matched(NamedTuple):
    """Examples with their scores.

    Attributes:
        examples: those whose three sentences are scored.
        scores: one triple per example, in the order of LABELS.
        coverage: per format in the predictions, how many examples are scored, and of how many.
    """

    examples: tuple[Example, ...]
    scores: tuple[tuple[float, ...], ...]
    coverage: dict[str, tuple[int, int]]


def load(source: str | None, *, split: str, offline: bool) -> Dataset[Example]:
    """The examples of `source`: a gold file (.json, .gz, .xz), "mini", or None for the fetched `split`.

    Returns:
        The examples, intrasentence first. The source is "dev" or "test" for the published content,
        else "stereoset-mini" or the file's name; the hash is of the content without carriage returns; the
        notes count the quirks of the data.

    Raises:
        InputError: the file cannot be read, or is no StereoSet gold file.
    """
    if source is None:
        return fetched(split, offline)
    if source == "mini":
        return dataset(files("evenhand").joinpath("data/stereoset_mini.json").read_bytes(), MINI)
    return dataset(content(Path(source)), Path(source).name)


def fetched(split: str, offline: bool) -> Dataset[Example]:
    """The published `split`, "dev" or "test", fetched or from the cache."""
    from evenhand.data import fetch

    return dataset(fetch.stereoset(split, offline=offline), f"stereoset {split}")


def dataset(raw: bytes, name: str) -> Dataset[Example]:
    """The examples in a gold file's bytes, with hash and notes; `name` is for messages and the source."""
    notes = []
    if b"\r" in raw:
        raw = raw.replace(b"\r", b"")
        notes.append("the file has carriage returns; its hash is of the content without them")
    sha256 = hashlib.sha256(raw).hexdigest()
    published = PUBLISHED.get(sha256)
    if published is None and name != MINI:
        notes.append("the content is neither the published dev set nor the published test set")
    rows = read(raw, name)
    notes += [f"there are no {form} examples" for form in FORMATS if all(row.format != form for row in rows)]
    notes += [f"{what}: {number}" for what, number in quirks(rows).items() if number]
    return Dataset(rows=rows, source=published or name, sha256=sha256, notes=tuple(notes))


def content(path: Path) -> bytes:
    """The file's bytes, decompressed where its name ends in .gz or .xz."""
    opened: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, Path.open)
    try:
        with opened(path, "rb") as file:
            raw: bytes = file.read(LIMIT + 1)
    except EOFError:
        raise InputError(f"{path}: the compressed file is cut short; get it again") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be decompressed: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if len(raw) > LIMIT:
        raise InputError(f"{path}: holds more than {LIMIT >> 20} MiB; StereoSet's files are far smaller")
    return raw


def parsed(raw: bytes, name: str) -> Any:
    """The JSON value in `raw`."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON: {error}") from None


def shown(value: Any) -> str:
    """A value from a file as it may stand in a one-line message."""
    written = repr(value)
    return written if len(written) <= 80 else written[:77] + "..."


def entries(lists: Any, name: str, key: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Format, place (for messages) and entry, for each entry of the lists of the two formats under `key`."""
    if not isinstance(lists, dict) or not any(form in lists for form in FORMATS):
        raise InputError(f"{name}: not StereoSet's form: no {key}intrasentence and no {key}intersentence")
    for form in FORMATS:
        listed = lists.get(form, [])
        if not isinstance(listed, list):
            raise InputError(f"{name}: key {key}{form} is not a list")
        for number, entry in enumerate(listed):
            place = f"{name}, {form} entry {number}"
            if not isinstance(entry, dict):
                raise InputError(f"{place}: is {shown(entry)}, not an object")
            yield form, f"{place}, id {shown(entry.get('id'))}", entry


def text(entry: Mapping[str, Any], key: str, place: str) -> str:
    """The text at `key`, which must be there and not be blank."""
    if key not in entry:
        raise InputError(f"{place}: key {key!r} is missing")
    value = entry[key]
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: key {key!r} is {shown(value)}, not text")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputError(f"{place}: key {key!r} holds half of a surrogate pair, which is not text")
    return value


def once(ids: Sequence[str], what: str) -> None:
    """Raises InputError if an id stands more than once."""
    for found, number in Counter(ids).items():
        if number > 1:
            raise InputError(f"{what} id {shown(found)} stands {number} times")


def read(raw: bytes, name: str) -> tuple[Example, ...]:
    """The examples of a gold file, intrasentence first; faults name the file, the example and the key."""
    found = parsed(raw, name)
    lists = found.get("data") if isinstance(found, dict) else None
    rows = tuple(example(entry, form, place) for form, place, entry in entries(lists, name, "data."))
    if not rows:
        raise InputError(f"{name}: has no examples")
    once([row.id for row in rows], f"{name}: the example")
    once([sentence.id for row in rows for sentence in row.sentences], f"{name}: the sentence")
    return rows


def example(entry: Mapping[str, Any], form: str, place: str) -> Example:
    """One example of a gold file."""
    own_id, target, bias_type, context = (text(entry, key, place) for key in ("id", "target", "bias_type", "context"))
    if form == "intrasentence" and "BLANK" not in context:
        raise InputError(f"{place}: key 'context' holds no BLANK")
    listed = entry.get("sentences")
    if not isinstance(listed, list) or len(listed) != 3 or not all(isinstance(one, dict) for one in listed):
        raise InputError(f"{place}: key 'sentences' does not hold three sentences")
    by_label: dict[str, Sentence] = {}
    for number, one in enumerate(listed):
        where = f"{place}, sentence {number}"
        sentence = Sentence(*(text(one, key, where) for key in ("id", "sentence", "gold_label")))
        if sentence.label not in LABELS:
            raise InputError(f"{where}: key 'gold_label' is {shown(sentence.label)}, none of {LABELS}")
        by_label[sentence.label] = sentence
    if len(by_label) != 3:
        raise InputError(f"{place}: key 'sentences' does not hold one sentence of each gold_label")
    return Example(own_id, target, bias_type, context, form, tuple(by_label[label] for label in LABELS))


def quirks(rows: Sequence[Example]) -> dict[str, int]:
    """How often each known quirk of the data stands in `rows`, by its name in words."""
    intra = [row for row in rows if row.format == "intrasentence"]
    single = [row for row in intra if row.context.count("BLANK") == 1]
    counts = {
        "contexts that begin with BLANK": sum(row.context.startswith("BLANK") for row in intra),
        "contexts that hold BLANK more than once": sum(row.context.count("BLANK") > 1 for row in intra),
        "contexts with BLANK glued to other text": sum(glued(row.context) for row in intra),
        f"sentences in another case than their context, of {3 * len(single)} (contexts with one BLANK)": sum(
            differs_in_case(row.context, sentence.text) for row in single for sentence in row.sentences
        ),
    }
    for form in FORMATS:
        contexts = [row.context for row in rows if row.format == form]
        counts[f"{form} contexts that repeat an earlier one"] = len(contexts) - len(set(contexts))
    return counts


def glued(context: str) -> bool:
    """Whether a token (between spaces) holds BLANK and also a letter or digit of its own."""
    tokens = [token for token in context.split() if "BLANK" in token]
    return any(letter.isalnum() for token in tokens for letter in token.replace("BLANK", ""))


def differs_in_case(context: str, sentence: str) -> bool:
    """Whether the sentence has the context's text on both sides of its one BLANK only if case is ignored."""
    before, after = context.split("BLANK")
    if sentence.startswith(before) and sentence.endswith(after):
        return False
    low = sentence.lower()
    return low.startswith(before.lower()) and low.endswith(after.lower())


def read_predictions(path: str | Path) -> dict[str, dict[str, float]]:
    """Scores in the authors' format, {"intrasentence": [{"id", "score"}], "intersentence": [...]}.

    Returns:
        Format -> sentence id -> score, for the formats that have any; one alone is fine.

    Raises:
        InputError: not JSON, of another shape, a score that is no finite number, an id that stands twice.
    """
    pairs: dict[str, list[tuple[str, float]]] = {}
    for form, place, entry in entries(parsed(content(Path(path)), str(path)), str(path)):
        score = entry.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise InputError(f"{place}: key 'score' is {shown(score)}, not a number")
        if not abs(score) <= sys.float_info.max:
            raise InputError(f"{place}: key 'score' is {shown(score)}, not a finite number")
        pairs.setdefault(form, []).append((text(entry, "id", place), float(score)))
    if not pairs:
        raise InputError(f"{path}: has no scores")
    for form, scored in pairs.items():
        once([sentence for sentence, _ in scored], f"{path}, {form}: the")
    return {form: dict(scored) for form, scored in pairs.items()}


def matched(
    predictions: Mapping[str, Mapping[str, float]], examples: Sequence[Example], *, allow_missing: bool
) -> Matched:
    """The examples that the predictions score; a format that the predictions lack is out of scope.

    Args:
        predictions: see `read_predictions`.
        examples: the gold.
        allow_missing: leave out examples without three scores; an id that the gold lacks is a fault still.

    Raises:
        InputError: an id that the gold lacks, a sentence without a score, or no example with three scores.
    """
    kept: list[Example] = []
    coverage: dict[str, tuple[int, int]] = {}
    for form, scores in predictions.items():
        gold = {row: [sentence.id for sentence in row.sentences] for row in examples if row.format == form}
        known = {own: None for ids in gold.values() for own in ids}
        if unknown := [own for own in scores if own not in known]:
            what = f"{len(unknown)} of {len(scores)} ids are not in the gold file, {shown(unknown[0])} the first"
            raise InputError(f"predictions, {form}: {what}; are they for another split?")
        if not allow_missing and (missing := [own for own in known if own not in scores]):
            what = f"{len(missing)} of {len(known)} sentences have no score, id {shown(missing[0])} the first"
            raise InputError(f"predictions, {form}: {what}; --allow-missing scores what is there")
        whole = [row for row, ids in gold.items() if all(own in scores for own in ids)]
        coverage[form] = (len(whole), len(gold))
        kept += whole
    if not kept:
        raise InputError("predictions: no example has a score for each of its three sentences")
    scored = tuple(tuple(predictions[row.format][one.id] for one in row.sentences) for row in kept)
    return Matched(tuple(kept), scored, coverage)
