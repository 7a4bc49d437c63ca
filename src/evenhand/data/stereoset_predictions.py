"""Predictions for StereoSet in its authors' format, matched with the gold examples."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evenhand.data.stereoset import Example, content, entries, once, parsed, shown, text
from evenhand.errors import InputError


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
