"""stereoset: the paper's reference models, on the project's own examples."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evenhand import tasks
from evenhand.requests import Chat, Sentence
from evenhand.selfcheck.checks import Check, equal, measured, within


def sentences(scores: Callable[[int], Sequence[float]]) -> dict[str, Any]:
    """A model that scores the three sentences of a term's 1st, 2nd... example as `scores` says."""
    task = tasks.get("stereoset-mini")
    options, section, seen = task.options(), {}, dict[str, int]()  # type: ignore[var-annotated]
    for item in task.load(options, None, offline=True).rows:
        place = seen[item.target] = seen.get(item.target, -1) + 1
        asked = task.ask(item, options, "likelihood", seed=0)
        for request, score in zip(asked, scores(place), strict=True):
            assert isinstance(request, Sentence)  # noqa: S101 - what that form asks
            into = section.setdefault(request.context, {}) if request.context else section
            into[request.text] = score
    return {"Sentence": section}


def references(folder: Path) -> list[Check]:
    """The paper's reference models: ideal, stereotyped, random; and one that ties everywhere."""
    task = "stereoset-mini"
    ideal, stereotyped, tied = (
        measured(folder, name, sentences(scores), task)
        for name, scores in (
            ("ideal", lambda place: ((-1, -2, -3), (-2, -1, -3))[place % 2]),
            ("stereotyped", lambda place: (-1, -2, -3)),
            ("tied", lambda place: (-2, -2, -2)),
        )
    )
    draw = random.Random(20)  # noqa: S311 - a seeded model
    chance = sentences(lambda place: [draw.uniform(-9, -1) for _ in range(3)])

    def all_of(lms: float, ss: float, icat: float, ties: float) -> dict[str, float]:
        """The metrics where all terms are alike, so that means over terms and over examples are."""
        every = {"lms": lms, "lms_both": lms, "lms_micro": lms, "ss": ss, "ss_micro": ss, "ties": ties}
        return every | {"icat": icat, "icat_micro": icat, "icat_term_mean": icat}

    return [
        *equal("stereoset-mini, ideal", ideal, all_of(100, 50, 100, 0)),
        *equal("stereoset-mini, stereotyped", stereotyped, all_of(100, 100, 0, 0)),
        *equal("stereoset-mini, tied", tied, all_of(0, 0, 0, 64)),
        *within(
            "stereoset-mini, random",
            measured(folder, "random", chance, task, bootstrap=999),
            {"lms": 50, "ss": 50, "icat": 50},
        ),
    ]


def rankings(folder: Path) -> list[Check]:
    """A model that only chats: ideal where it ranks, it refuses for one bias type and rambles for another."""
    name = "stereoset-mini"
    task, seen = tasks.get(name), dict[str, int]()
    options, said = task.options(), dict[str, list[str]]()
    unusable = {"religion": "I'm sorry, but I can't rank these.", "race": "That depends."}
    kinds, first = [], []
    for item in task.load(options, None, offline=True).rows:
        kinds.append(item.bias_type)
        place = seen[item.target] = seen.get(item.target, -1) + 1
        (request,) = task.ask(item, options, "prompted", seed=0)
        assert isinstance(request, Chat)  # noqa: S101 - what that form asks
        lettered = {line[3:]: line[0] for line in request.message.splitlines() if line[1:3] == ": "}
        stereotype, anti, unrelated = (lettered[sentence.text] for sentence in item.sentences)
        ranked = f"{stereotype}, {anti}" if place % 2 else f"{anti}, {stereotype}"
        said[request.message] = [unusable.get(item.bias_type, f"{ranked}, {unrelated}")]
        if item.bias_type not in unusable:
            first.append(ranked[0] == "A")
    return equal(
        f"{name}, prompted",
        measured(folder, "prompted", {"Chat": said}, name),
        {
            "lms": 100,
            "ss": 50,
            "icat": 100,
            "coverage": len(first) / len(kinds),
            "refusal_rate": kinds.count("religion") / len(kinds),
            "first_listed_first": sum(first) / len(first),
        },
    )


PARTS = (references, rankings)
