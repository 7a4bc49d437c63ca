"""Do 95% intervals cover the truth 95 times in 100? Simulated runs at the benchmarks' own sizes.

    python benchmarks/coverage.py [--seconds S] [--repetitions N] [--draws N] [--seed N] [--only NAME]

In each repetition new clusters are drawn from a population whose value is known, as many and as large as the
benchmark's; the interval is made by the code that makes a run's. Prints the share of intervals that hold the truth, its
own standard error, and the shares that lie wholly below and above it.
"""

import argparse
import json
import lzma
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand import tasks
from evenhand.data.bios_figures import FIGURES
from evenhand.metrics import census, gap_intervals, gaps, icat
from evenhand.metrics.intervals import Measure, Resampling, averaged, estimated
from evenhand.metrics.paired import difference
from evenhand.records import Estimate, Metric
from peers import SHARED, machine

Floats = NDArray[np.float64]
Ends = tuple[float | None, float | None]
TOLERATED = (93.0, 97.0)


class Case(NamedTuple):
    """A metric at a size: its name, the truth, and one repetition's interval."""

    task: str
    metric: str
    setting: str
    truth: float
    interval: Callable[[np.random.Generator, Resampling], Ends]


def metric(task: str, name: str) -> Metric:
    """The metric's card."""
    return next(one for one in tasks.get(task).card.metrics if one.name == name)


def ends(measure: Measure, how: Resampling) -> Ends:
    """The interval of a run's estimate."""
    found = estimated(measure, how)
    return found.ci_low, found.ci_high


def occupations() -> Iterator[Case]:
    """cooccurrence: 349 occupations once (the default), and 330 of which 16 stand more than once (the public set)."""

    def mean(rows: str, sizes: list[int]) -> Case:
        """Skewed, as the demo model's are; rows of one occupation are equal."""
        card, names = metric("cooccurrence", "likelihood_diff"), titles(sizes)

        def interval(rng: np.random.Generator, how: Resampling) -> Ends:
            return ends(averaged(card, np.repeat(rng.gamma(4.0, 0.5, size=len(sizes)) - 3.2, sizes), names), how)

        return Case("cooccurrence", card.name, rows, -1.2, interval)

    def share(name: str, rows: str, sizes: list[int], p: float) -> Case:
        card, names = metric("cooccurrence", name), titles(sizes)

        def interval(rng: np.random.Generator, how: Resampling) -> Ends:
            values = np.repeat((rng.random(len(sizes)) < p).astype(float), sizes)
            return ends(averaged(card, values, names), how)

        return Case("cooccurrence", name, f"{rows}, truth {p}", p, interval)

    once, public = [1] * 349, [6, 3, *[2] * 14, *[1] * 314]
    for rows, sizes in (("349 occupations", once), (f"330 occupations, {sum(public)} rows", public)):
        yield mean(rows, sizes)
        yield share("pct_male_preferred", rows, sizes, 0.84)
    yield share("male_leaning_rate", "349 occupations", once, 0.96)

    def change(rng: np.random.Generator, how: Resampling) -> Ends:
        one = rng.gamma(4.0, 0.5, size=349) - 3.2
        two = one + 0.1 + rng.normal(0, 0.6, size=349)
        card, names = metric("cooccurrence", "likelihood_diff"), titles(once)
        found = difference(averaged(card, one, names), averaged(card, two, names), how).interval
        return found.low, found.high

    yield Case("cooccurrence", "likelihood_diff", "349 occupations, difference of two runs", 0.1, change)


def titles(sizes: list[int]) -> list[str]:
    """Each row's occupation."""
    return [f"o{i:03}" for i, n in enumerate(sizes) for _ in range(n)]


def term_sizes(bias_type: str | None = None) -> tuple[list[int], str]:
    """How many examples each target term of dev has; where ../shared is absent, as many terms of one size."""
    path = SHARED / "data" / "stereoset" / "dev.json.xz"
    if not path.is_file():
        return [53] * {None: 79, "profession": 40, "gender": 9, "religion": 3}[bias_type], "synthetic sizes"
    data = json.loads(lzma.decompress(path.read_bytes()))["data"]
    counts = Counter(e["target"] for rows in data.values() for e in rows if bias_type in (None, e["bias_type"]))
    return [counts[t] for t in sorted(counts)], "dev"


def terms() -> Iterator[Case]:
    """stereoset: terms with rates of their own, drawn from a beta distribution; all of dev's, and one bias type's."""

    def case(name: str, bias_type: str | None, ss: float, truth: float) -> Case:
        sizes, where = term_sizes(bias_type)
        n, card, statistic = np.array(sizes), metric("stereoset", name), getattr(icat, name)
        targets = [f"t{i:02}" for i in range(len(n))]

        def interval(rng: np.random.Generator, how: Resampling) -> Ends:
            pro = rng.binomial(n, rng.beta(ss / 100 * 30, (1 - ss / 100) * 30, size=len(n)))
            related = rng.binomial(2 * n, rng.beta(0.85 * 30, 0.15 * 30, size=len(n)))
            columns = icat.Columns(*(c.astype(float) for c in (pro, related, related // 2, n, np.zeros(len(n)))))
            return ends(Measure(metric=card, statistic=statistic, clusters=targets, columns=columns, n=sum(sizes)), how)

        shown = f"{bias_type or 'all'}, {len(n)} terms ({where}), ss {ss:g}"
        return Case("stereoset", name, shown, truth, interval)

    for ss in (50, 60):
        yield case("ss", None, ss, ss)
    yield case("lms", None, 50, 85)
    for ss in (50, 52, 55, 60):
        yield case("icat", None, ss, 85 * min(ss, 100 - ss) / 50)
    for bias_type in ("profession", "gender", "religion"):
        yield case("ss", bias_type, 60, 60)


def forms() -> Iterator[Case]:
    """census: 349 occupations of two forms each; what a model says of the two goes together."""
    n = 349
    names = [f"o{i:03}" for i in range(n) for _ in range(2)]

    def hits(name: str, p: float) -> Case:
        """A third of the forms are not what the other form of the occupation is."""
        card = metric("census-us", name)

        def interval(rng: np.random.Generator, how: Resampling) -> Ends:
            common = np.repeat(rng.random(n) < p, 2)
            own = rng.random(2 * n) < p
            return ends(census.percent(card, np.where(rng.random(2 * n) < 2 / 3, common, own), names), how)

        return Case("census-us", name, f"{n} occupations, {2 * n} forms, truth {100 * p:g}", 100 * p, interval)

    def correlation(name: str, make: Callable[..., Measure], truth: float) -> Case:
        card = metric("census-us", name)

        def interval(rng: np.random.Generator, how: Resampling) -> Ends:
            pct = rng.normal(size=n)
            share = np.repeat(0.6 * pct + 0.6 * rng.normal(size=n), 2) + (0.28**0.5) * rng.normal(size=2 * n)
            return ends(make(card, share, np.repeat(pct, 2), names), how)

        return Case("census-us", name, f"{n} occupations, {2 * n} forms", truth, interval)

    yield hits("descriptive", 0.45)
    yield hits("normative", 0.12)
    yield correlation("pearson", census.pearson, 0.6)
    yield correlation("spearman", census.spearman, 6 / np.pi * np.arcsin(0.3))


def classes() -> Iterator[Case]:
    """bios: a quarter of the public rows, rates of their own per class and gender; wrong answers are spread evenly."""
    n = np.array([[figures.men // 4, figures.women // 4] for figures in FIGURES.values()]).T
    size = n.shape[1]
    rng = np.random.default_rng(5)
    for spread in (0.0, 0.1):
        middle = rng.uniform(0.6, 0.9, size=size)
        rates = np.stack([middle, middle + spread * rng.normal(size=size)]).clip(0.05, 0.95)
        gap = rates[1] - rates[0]
        truths = {
            "balanced_accuracy": float(((rates * n).sum(axis=0) / n.sum(axis=0)).mean()),
            "gap_rms": float(np.sqrt((gap**2).mean())),
            "gap_abs": float(np.abs(gap).mean()),
        }
        cards = {metric("bios", name): getattr(gaps, name) for name in truths}
        made: dict[int, dict[str, Estimate]] = {}  # by seed: one simulated table serves all three metrics

        def estimates(
            rng: np.random.Generator, how: Resampling, rates: Floats = rates, cards: Any = cards, made: Any = made
        ) -> dict[str, Estimate]:
            if how.seed not in made:
                counts = np.zeros((2, size, size), dtype=np.int64)
                for g, c in np.ndindex(2, size):
                    p = np.full(size, (1 - rates[g, c]) / (size - 1))
                    p[c] = rates[g, c]
                    counts[g, c] = rng.multinomial(n[g, c], p)
                made[how.seed] = gap_intervals.estimates(cards, counts, how)
            found: dict[str, Estimate] = made[how.seed]
            return found

        for name, truth in truths.items():

            def interval(rng: np.random.Generator, how: Resampling, name: str = name, make: Any = estimates) -> Ends:
                found = make(rng, how)[name]
                return found.ci_low, found.ci_high

            shown = f"{n.sum():,} rows, {'no gaps' if spread == 0 else 'gaps of 0.1'}"
            yield Case("bios", name, shown, truth, interval)


SIMULATIONS = (occupations, terms, forms, classes)


def cover(case: Case, seconds: float, most: int, draws: int, seed: int) -> tuple[int, float, float, float]:
    """Repetitions, and the percent of intervals that hold the truth, lie below it, lie above it."""
    rng = np.random.default_rng(seed)
    held = below = above = n = 0
    until = time.perf_counter() + seconds
    while n < most and (time.perf_counter() < until or n < 20):
        low, high = case.interval(rng, Resampling(draws, seed + n))
        n += 1
        if low is None or high is None:
            continue
        below += high < case.truth
        above += low > case.truth
        held += low <= case.truth <= high
    return n, 100 * held / n, 100 * below / n, 100 * above / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180, help="for all cases together")
    parser.add_argument("--repetitions", type=int, default=1000, help="of each case, at most")
    parser.add_argument("--draws", type=int, default=999, help="bootstrap draws of each interval")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases of which this is a part of the task and metric")
    args = parser.parse_args()
    cases = [c for simulate in SIMULATIONS for c in simulate() if args.only in f"{c.task} {c.metric}"]
    print(f"{machine()}; {args.draws} draws, {len(cases)} cases in {args.seconds:g} s\n")
    print("| task | metric | at | repetitions | covers | s.e. | below | above |")
    print("|---|---|---|---|---|---|---|---|")
    outside = []
    until = time.perf_counter() + args.seconds
    for i, case in enumerate(cases):
        left = (until - time.perf_counter()) / (len(cases) - i)
        n, held, below, above = cover(case, left, args.repetitions, args.draws, args.seed)
        error = 100 * (held / 100 * (1 - held / 100) / n) ** 0.5
        cells = (f"`{case.task}`", f"`{case.metric}`", case.setting, n, f"{held:.1f}%", f"{error:.1f}")
        print(f"| {' | '.join(map(str, cells))} | {below:.1f}% | {above:.1f}% |", flush=True)
        if not TOLERATED[0] <= held <= TOLERATED[1]:
            outside.append(f"{case.task} {case.metric} ({case.setting}): {held:.1f}%")
    print(f"\noutside {TOLERATED[0]:g}% to {TOLERATED[1]:g}%: {'; '.join(outside) or 'none'}")


if __name__ == "__main__":
    main()
