"""census-us against transformers' fill-mask pipeline asked probe by probe: same model, same probes, one process.

    python benchmarks/census.py [--probes N] [--forms N]

Loading is left out on both sides. evenhand's side is everything from the items to the answers, and goes over all
probes with the small model of ../shared (or EVENHAND_SHARED), over those of every Nth form with random BERT-base
weights (speed does not depend on them). The pipeline is asked some hundreds of the same probes, and its time is given
per probe; it reads a word's first piece, as evenhand does by `first-piece`. Last, what a causal model takes: tokens
asked and forwarded, planned for the demo model without running it.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from evenhand import tasks
from evenhand.models import LoadOptions, load, plan
from evenhand.models.causal import ROW_TOKENS, Causal
from evenhand.models.masked import Masked
from evenhand.requests import Cloze, Request
from evenhand.tasks.census import Options, probes
from peers import SHARED, machine

SMALL = SHARED / "models" / "minilm-mlm"


def asked(items: Any, form: str, method: Any = "word") -> list[Request]:
    """All requests of the items, each once."""
    task, options = tasks.get("census-us"), Options(method=method)
    return list(dict.fromkeys(request for item in items for request in task.ask(item, options, form, seed=0)))


def base(folder: Path) -> Path:
    """BERT-base with random weights and the small model's tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig()).save_pretrained(folder)
    AutoTokenizer.from_pretrained(SMALL).save_pretrained(folder)
    return folder


def pipeline(folder: Path, requests: list[Request], count: int) -> float:
    """Seconds a probe takes the pipeline, which reads a word's first piece."""
    from transformers import logging
    from transformers import pipeline as make

    logging.set_verbosity_error()
    pipe = make("fill-mask", model=str(folder), device="cpu")
    mask = pipe.tokenizer.mask_token
    pairs = [
        (r.text[: r.span[0]] + mask + r.text[r.span[1] :], fill)
        for r in requests
        if isinstance(r, Cloze)
        for fill in r.fills
    ]
    some = random.Random(0).sample(pairs, min(count, len(pairs)))
    pipe(some[0][0], targets=[some[0][1]])
    began = time.perf_counter()
    for text, fill in some:
        pipe(text, targets=[fill])
    return (time.perf_counter() - began) / len(some)


def ours(folder: Path, items: Any, method: str) -> tuple[float, Masked]:
    """Seconds from the items to all answers."""
    model = load(str(folder), LoadOptions(device="cpu"))
    assert isinstance(model, Masked)
    assert model.forward is not None
    model.work.passes = model.work.rows = 0
    began = time.perf_counter()
    requests = asked(items, "cloze", method)
    count = sum(len(batch) for batch in model.answer(requests, {}))
    seconds = time.perf_counter() - began
    assert count == len(requests)
    return seconds, model


def compared(name: str, folder: Path, items: Any, count: int) -> None:
    """Prints both sides and their ratios."""
    total = sum(len(probes(item, Options()).probes) for item in items)
    each = pipeline(folder, asked(items, "cloze"), count)
    print(f"{name}: {total} probes of {len(items)} forms")
    print(f"  pipeline: {1000 * each:.2f} ms a probe ({count} measured), {total} masked texts, a pass for each")
    for method in ("word", "first-piece"):
        seconds, model = ours(folder, items, method)
        rows, passes = model.work.rows, model.work.passes
        ratios = f"1/{total / rows:.2f} of the texts, 1/{each * total / seconds:.1f} of the time ({seconds:.1f} s)"
        print(
            f"  evenhand, {method}: {1000 * seconds / total:.2f} ms a probe, {rows} texts in {passes} batches: {ratios}"
        )


def causal(items: Any) -> None:
    """Prints what a causal model is asked and what it forwards."""
    model = load("demo", LoadOptions(device="cpu"))
    assert isinstance(model, Causal)
    requests = asked(items, "likelihood")
    began = time.perf_counter()
    paths = model._paths(requests)
    rows = plan.trees(paths, ROW_TOKENS)
    wanted, forwarded = sum(len(path.tokens) - 1 for path in paths), sum(len(row.tokens) for row in rows)
    print(f"demo, planned: {len(requests)} sentences, {wanted} tokens asked, {forwarded} forwarded "
          f"(1/{wanted / forwarded:.2f}), planned in {time.perf_counter() - began:.1f} s")  # fmt: skip


def main() -> None:
    """Both models, then the causal plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--probes", type=int, default=300, help="probes that the pipeline is asked")
    parser.add_argument("--forms", type=int, default=60, help="forms for BERT-base, about")
    given = parser.parse_args()
    if not SMALL.is_dir():
        sys.exit(f"needs {SMALL} (set EVENHAND_SHARED)")
    items = tasks.get("census-us").load(Options(), None, offline=True).rows
    print(f"census-us, float32; {machine()}")
    compared("minilm-mlm", SMALL, items, given.probes)
    # Singular and plural in turn: an odd step takes some of both.
    step = max(1, len(items) // given.forms) | 1
    with tempfile.TemporaryDirectory() as folder:
        compared("BERT-base, random weights", base(Path(folder)), items[::step], given.probes)
    causal(items)


if __name__ == "__main__":
    main()
