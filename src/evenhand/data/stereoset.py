"""StereoSet's gold files.

Nadeem, Bethke and Reddy 2020 (arXiv 2004.09456). The sentences are CC BY-SA 4.0 and no part of this project:
they are fetched, or read from a file of the user's. "mini" is the project's own small set of the same shape.
"""

import gzip
import hashlib
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenhand.data import Dataset
from evenhand.errors import InputError

FORMATS = ("intrasentence", "intersentence")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
MINI = "stereoset-mini"
PUBLISHED = {
    "dev": (
        "73a0f31b711688112602e4c3ac6ab1e1a7cadcdd67df6c6fd55501c889676c90",
        "dce89d695c6f9a8d1bd3502e1b9ac9a9933ffc472eab9a217382eb7728c37233",
    ),
    "test": (
        "f3f70d1880b443388744958d192c25364d68c2b8ae7aeb9174903bcf415c394e",
        "eebf81fe4dfb2d63afaa7709ff79d8198b9e9caaccc67ffcc1424f16cf05c051",
    ),
}
"""Per split: SHA-256 of the published file without carriage returns, and `rows_hash`: other files may hold its rows."""
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
    from evenhand.data import stereoset_sources

    return dataset(stereoset_sources.fetch(split, offline=offline).read_bytes(), f"stereoset {split}")


def dataset(raw: bytes, name: str) -> Dataset[Example]:
    """The examples in a gold file's bytes, with hash and notes; `name` is for messages and the source."""
    notes = []
    if b"\r" in raw:
        raw = raw.replace(b"\r", b"")
        notes.append("the file has carriage returns; its hash is of the content without them")
    sha256, published = hashlib.sha256(raw).hexdigest(), None
    rows = read(raw, name)
    content_hash = rows_hash(rows)
    for split, (file_hash, known) in PUBLISHED.items():
        if content_hash == known:
            sha256, published = file_hash, split
    if published is None and name != MINI:
        notes.append("the content is neither the published dev set nor the published test set")
    notes += [f"there are no {form} examples" for form in FORMATS if all(row.format != form for row in rows)]
    notes += [f"{what}: {number}" for what, number in quirks(rows).items() if number]
    return Dataset(rows=rows, source=published or name, sha256=sha256, notes=tuple(notes))


def rows_hash(rows: Sequence[Example]) -> str:
    """A hash of what evenhand reads of the examples, whatever their order and the file around them."""
    flat = sorted((r.id, r.target, r.bias_type, r.context, r.format, *map(astuple, r.sentences)) for r in rows)
    return hashlib.sha256(json.dumps(flat, ensure_ascii=False).encode(errors="surrogatepass")).hexdigest()


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
