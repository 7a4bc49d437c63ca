"""StereoSet: what evenhand forwards for a causal and a masked model, and how fast, against one sentence at a time.

    python benchmarks/stereoset.py [--sentences N] [--alone N] [--masked FOLDER]

The causal model is the demo model, over the first examples of dev. One sentence at a time is a plain forward pass per
sentence with the model's own logits; it is timed on a part of the same sentences. The matrix-multiply rate is this
machine's own, in the same run.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenhand import models, tasks
from evenhand.data import stereoset
from evenhand.models import LoadOptions
from evenhand.requests import Request, Sentence
from peers import SHARED, machine, multiply_rate


def requests(limit: int, form: str, formats: Sequence[str] = stereoset.FORMATS) -> list[Request]:
    """The first examples' requests, each once, until they hold `limit` sentences."""
    task: Any = tasks.get("stereoset")
    options = task.options()
    rows = [row for row in task.load(options, None, offline=False).rows if row.format in formats]
    asked = [r for row in rows[: -(-limit // 3)] for r in task.ask(row, options, form, seed=0)]
    return list(dict.fromkeys(asked))


def flops_per_token(model: Any) -> tuple[float, float]:
    """Multiply-adds times two, per token through the body's matrices and per position through the head."""
    head = model.get_output_embeddings().weight
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name and p is not head]
    body = sum(matrix.numel() for matrix in matrices)
    return 2.0 * body, 2.0 * head.numel()


def causal(limit: int, alone: int) -> None:
    """The demo model: tokens asked and forwarded, rates, and the ratio to one sentence at a time."""
    import torch

    found: Any = models.load("demo", LoadOptions())
    asked = requests(limit, "likelihood")
    forward = found.forward
    work = found.work
    trial = (work.tokens, work.heads)  # what loading took to try the model out
    began = time.perf_counter()
    answers = dict(pair for batch in found.answer(asked, ()) for pair in batch)
    seconds = time.perf_counter() - began
    tokens, heads = work.tokens - trial[0], work.heads - trial[1]
    sentences = [r for r in asked if isinstance(r, Sentence)]
    paths = [
        tokens
        for parts in found.encoder.sentences(
            [r.text for r in sentences], [r.context for r in sentences], [r.start for r in sentences]
        )
        for tokens, _ in parts
    ]
    wanted = sum(len(path) for path in paths)
    step = max(1, len(paths) // alone)
    some = range(0, len(paths), step)
    worst = 0.0
    began = time.perf_counter()
    with torch.inference_mode():
        for i in some:
            ids = torch.tensor([paths[i]])
            logits = forward.model(ids, use_cache=False).logits[0, :-1].float()
            values = logits.log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
            mine = answers[sentences[i]].logprobs[0]
            worst = max(worst, *(abs(a - b) for a, b in zip(values.tolist()[-len(mine) :], mine, strict=True)))
    each = (time.perf_counter() - began) / len(some)
    body, head = flops_per_token(forward.model)
    rate, own = (tokens * body + heads * head) / seconds / 1e9, multiply_rate()
    print(f"causal, Gemma 3 270M, float32, first {len(asked)} sentences of dev; {machine()}")
    print(f"  tokens asked {wanted}, forwarded {tokens} ({tokens / wanted:.0%}), padding {work.padding}")
    print(f"  head positions {heads}, passes {work.passes}, {seconds:.1f} s, {len(asked) / seconds:.1f} sentences/s")
    print(f"  {rate:.0f} GFLOP/s, {rate / own:.0%} of this machine's multiply rate of {own:.0f} GFLOP/s")
    print(f"  one sentence at a time: {1 / each:.2f} sentences/s (on {len(some)}), largest difference {worst:.1e} nats")
    print(f"  ratio: {each * len(asked) / seconds:.2f} times as fast as one sentence at a time")


def masked(folder: Path, limit: int) -> None:
    """A masked model: passes made of those that one fill at a time would take."""
    found: Any = models.load(str(folder), LoadOptions())
    asked = requests(limit, "cloze+likelihood", ["intrasentence"])
    trial = found.forward and found.work.rows  # what loading took to try the model out
    began = time.perf_counter()
    answers = dict(pair for batch in found.answer(asked, ()) for pair in batch)
    seconds = time.perf_counter() - began
    rows = found.work.rows - trial
    single = [r for r in asked if all(len(fill) == 1 for fill in answers[r].logprobs)]
    pieces = sum(len(fill) for answer in answers.values() for fill in answer.logprobs)
    fills = sum(len(answers[r].logprobs) for r in single)
    print(f"masked, {folder.name}, {len(asked)} contexts of dev; {machine()}")
    print(f"  {pieces} pieces read from {rows} masked inputs ({rows / pieces:.0%}), {seconds:.1f} s")
    print(
        f"  contexts whose fills are all one piece: {fills} fills from {len(single)} inputs ({len(single) / fills:.0%})"
    )


def main() -> None:
    """Prints both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--alone", type=int, default=60)
    parser.add_argument("--masked", type=Path, default=SHARED / "models" / "minilm-mlm")
    arguments = parser.parse_args()
    causal(arguments.sentences, arguments.alone)
    if arguments.masked.is_dir():
        masked(arguments.masked, arguments.sentences * 3)


if __name__ == "__main__":
    main()
