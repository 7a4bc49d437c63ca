"""bios: vectors a second against plain transformers, metrics over 98,000 rows, a 393,423-row set in memory.

    python benchmarks/bios.py [--texts N] [--rounds N]

The plain loop is the same model at batch 32, in the data's order, each batch padded to its longest, mean pooling.
"""

import argparse
import resource
import subprocess
import sys
import time
from statistics import median

import numpy as np

from evenhand.data import bios_synthetic, swap
from evenhand.metrics import gap_intervals, gaps
from evenhand.metrics.intervals import Resampling
from evenhand.models import LoadOptions, load
from evenhand.models.packaged import packaged
from evenhand.requests import Embed, Request
from evenhand.tasks.bios_summary import STATISTICS
from peers import machine

BATCH = 32


def texts(n: int) -> list[str]:
    """One to three made-up biographies and their twins: about as long, and as unlike in length, as real ones."""
    chance = np.random.default_rng(0)
    swapper = swap.load("pronouns")
    rows = [row.text for row in bios_synthetic.load(5 * max(n, 600), 1.0, 0).rows]
    found: list[str] = []
    at = 0
    while len(found) < n:
        take = int(chance.choice([1, 1, 1, 1, 2, 2, 3]))
        text = " ".join(rows[at : at + take])
        at += take
        found += [text, swapper.swap(text).text]
    return found[:n]


class Clock:
    """Seconds on the clock and of processor time since it was made: the second is not moved by what else runs."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def rates(self, n: int) -> tuple[float, float]:
        """`n` over both."""
        return n / (time.perf_counter() - self._began[0]), n / (time.process_time() - self._began[1])


def plain(lines: list[str]) -> tuple[float, float]:
    """Texts a second, on the clock and of processor time: plain."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = packaged("minilm", LoadOptions(tell=print))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    clock = Clock()
    with torch.inference_mode():
        for low in range(0, len(lines), BATCH):
            inputs = tokenizer(lines[low : low + BATCH], padding=True, truncation=True, return_tensors="pt")
            hidden = model(**inputs).last_hidden_state
            there = inputs["attention_mask"].unsqueeze(-1)
            ((hidden * there).sum(1) / there.sum(1)).numpy()
    return clock.rates(len(lines))


def ours(lines: list[str]) -> tuple[float, float]:
    """The same, evenhand's; equal texts are asked once, as a run asks them."""
    model = load("minilm", LoadOptions(device="cpu"))
    list(model.answer([Embed("a")], {}))  # the weights load
    clock = Clock()
    requests: list[Request] = list(dict.fromkeys(Embed(line) for line in lines))
    for _ in model.answer(requests, {}):
        pass
    return clock.rates(len(lines))


def metrics() -> float:
    """Seconds for all metrics that labels give, 2,000 draws, 98,000 rows, 28 classes."""
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 28, 98_000), rng.integers(0, 2, 98_000)
    predictions = np.where(rng.random(98_000) < 0.8, labels, rng.integers(0, 28, 98_000))
    began = time.perf_counter()
    gap_intervals.estimates(STATISTICS, gaps.table(labels, predictions, groups, 28), Resampling(2000))
    return time.perf_counter() - began


WHOLE = """
import numpy as np
from evenhand.metrics.intervals import Resampling
from evenhand.tasks import get
from evenhand.tasks.bios_summary import record
task = get("bios-synthetic")
options = task.options(size=393_423)
data = task.load(options, None, offline=True)
rng = np.random.default_rng(0)
right, same = rng.random((2, len(data.rows))) < 0.8
records = [
    record("predictions", i.id, i.row.label, i.row.gender, (i.row.label if r else "poet", i.row.label if s else "dj"),
           (0.5, 0.4), (0.5, 0.4))
    for i, r, s in zip(data.rows, right, same)
]
outcome = task.summarise(records, options, Resampling(2000))
print(len(data.rows), "rows, gap_rms", outcome.metrics["gap_rms"].value)
"""


def main() -> None:
    """Prints all three."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(machine())
    lines = texts(asked.texts)
    rates = [(plain(lines), ours(lines)) for _ in range(asked.rounds)]
    for at, what in enumerate(("on the clock", "of processor time")):
        theirs, own = (median(pair[i][at] for pair in rates) for i in (0, 1))
        print(f"vectors, MiniLM, {len(lines)} texts, a second {what}: plain {theirs:.1f}, evenhand {own:.1f}, ", end="")
        print(f"{own / theirs:.2f} times")
    print(f"metrics, 98,000 rows, 28 classes, 2,000 draws: {median(metrics() for _ in range(3)):.2f} s")
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", WHOLE], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(
        f"393,423 rows: load, swap, metrics of given predictions: {time.perf_counter() - began:.0f} s, {peak:.2f} GiB"
    )


if __name__ == "__main__":
    main()
