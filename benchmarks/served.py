"""A served model beside a local one: the same texts to both, the difference in nats a token.

    python benchmarks/served.py LOCAL api:BASE_URL#MODEL [--texts N]

LOCAL is what evenhand loads itself, such as demo. Tokens must be the same on both sides. A text's first token is left
out where the server does not read it.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand import models, tasks
from evenhand.models import LoadOptions
from evenhand.requests import Continuation, Request, Sentence
from peers import machine


def requests(n: int) -> dict[str, list[Request]]:
    """Two words after each of the first sentences of cooccurrence, and one whole sentence about each occupation."""
    task: Any = tasks.get("cooccurrence")
    rows = task.load(task.options(), None, offline=True).rows[:n]
    return {
        "continuations": [Continuation(row.sentence, (" woman", " man")) for row in rows],
        "sentences": [Sentence(f"The {row.occupation} could not find the old keys.") for row in rows],
    }


def logprobs(model: Any, asked: Sequence[Request]) -> list[tuple[float, ...]]:
    """Every choice's token log-probabilities, request by request."""
    answers = dict(pair for batch in model.answer(asked, {}) for pair in batch)
    return [tokens for request in asked for tokens in answers[request].logprobs]


def main() -> None:
    """Prints a line per kind of request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("local")
    parser.add_argument("served")
    parser.add_argument("--texts", type=int, default=20)
    args = parser.parse_args()
    here, there = models.load(args.local, LoadOptions()), models.load(args.served, LoadOptions())
    print(f"{args.local} beside {args.served.rpartition('#')[2]}; {machine()}")
    print(f"  served: {there.identity().reads}")
    began = time.perf_counter()
    for what, asked in requests(args.texts).items():
        differences = []
        for ours, theirs in zip(logprobs(here, asked), logprobs(there, asked), strict=True):
            left_out = len(ours) - len(theirs) if what == "sentences" else 0
            differences.append(np.array(theirs) - np.array(ours[left_out:]))
        all_of_them = np.concatenate(differences)
        apart = np.abs(all_of_them)
        print(
            f"  {what}: {len(apart)} tokens, largest difference {apart.max():.4f} nats, mean {apart.mean():.4f}, "
            f"signed mean {all_of_them.mean():+.4f}"
        )
    print(f"  {there.work.passes} HTTP requests; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
