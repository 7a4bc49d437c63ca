"""A GPU: tokens a second, the share of its own matrix-multiply rate, and what bfloat16 changes in every metric.

    python benchmarks/gpu.py [--texts N] [--limit N] [--out FILE]
    python benchmarks/gpu.py --device cpu --size tiny --dtypes float32,bfloat16 --texts 60 --limit 2

The second line tries it out without a GPU. The models are of GPT-2-large's and BERT-large's sizes, with random weights
and tokenizers that are made here: nothing is fetched. Weights are loaded and passes warmed up before the clock runs.
Operations are counted from matrices alone: two per weight of the body and token, padding apart, two per weight of the
vocabulary head and position that is read. The multiply rate is torch's own on large square matrices, in the same run
and dtype; float32 precision "highest" means without TF32, for the models as for the rate. Random weights have no
opinion: of the differences only the sizes mean something. A metric that so few forms leave undefined is "-".
"""

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from evenhand import models, run, tasks
from evenhand.compare import compare
from evenhand.models import LoadOptions
from evenhand.requests import Request
from evenhand.tasks import form_for
from peers import machine

Say = Callable[[str], None]
TASKS = ("cooccurrence", "stereoset-mini")
SPEED_COLUMNS = ("model", "task", "dtype", "tokens", "passes", "largest pass", "planning, s", "passes, s", "tokens/s",
                 "TFLOP/s", "of multiply rate", "in passes alone", "peak, GiB")  # fmt: skip


class Shape(NamedTuple):
    """A model's size."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int


SIZES = {
    "large": {"GPT-2-large": Shape(36, 1280, 20, 50257, 1024), "BERT-large": Shape(24, 1024, 16, 30522, 512)},
    "tiny": {"GPT-2-tiny": Shape(2, 64, 4, 2000, 128), "BERT-tiny": Shape(2, 64, 4, 2000, 128)},
}


def rows(task: str) -> Any:
    """A task's packaged items."""
    found: Any = tasks.get(task)
    return found.load(found.options(), None, offline=True).rows


def tokenizer(name: str, shape: Shape) -> Any:
    """GPT-2's or BERT's kind, trained on the packaged texts; it uses a part of the vocabulary."""
    from transformers import BertTokenizer, GPT2Tokenizer

    kind = GPT2Tokenizer if name.startswith("GPT") else BertTokenizer
    texts = [row.sentence for row in rows("cooccurrence")]
    texts += [f"{row.context} {sentence.text}" for row in rows("stereoset-mini") for sentence in row.sentences]
    texts += [f"Part {n}." for n in range(1000)]  # see `asked`
    texts += ["female, woman, male, man, aunt, boy, brother, daughter, father, girl, lady, mother, sister, son, uncle"]
    made = kind().train_new_from_iterator(texts, min(shape.vocabulary, 8000), show_progress=False)
    made.model_max_length = shape.length
    return made


def make(name: str, shape: Shape, folder: Path, device: str) -> str:
    """A checkpoint with random weights and a tokenizer, where `evenhand run` would take it from."""
    import torch
    from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

    layers, width, heads, vocabulary, length = shape
    torch.manual_seed(0)
    own = tokenizer(name, shape)
    special = {f"{what}_token_id": getattr(own, f"{what}_token_id") for what in ("bos", "eos", "pad")}
    with torch.device(device):
        if name.startswith("GPT"):
            sizes = {"n_positions": length, "n_embd": width, "n_layer": layers, "n_head": heads}
            model: Any = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, **sizes, **special))
        else:
            sizes = {"max_position_embeddings": length, "hidden_size": width, "intermediate_size": 4 * width}
            sizes |= {"num_hidden_layers": layers, "num_attention_heads": heads}
            model = BertForPreTraining(BertConfig(vocab_size=vocabulary, **sizes, **special))
    model.save_pretrained(folder)
    own.save_pretrained(folder)
    return str(folder)


def asked(task: str, model: Any, texts: int) -> list[Request]:
    """A task's requests for about so many texts: its items over and over, numbered so that all are different."""
    found: Any = tasks.get(task)
    options, items = found.options(), rows(task)
    own = getattr(found, "forms", None)
    form = form_for(found.card, model.supports, own and own(options))
    made: dict[Request, None] = {}
    for i in range(texts if task == "cooccurrence" else -(-texts // 3)):
        item, front = items[i % len(items)], f"Part {i // len(items) + 1}. "
        if task == "cooccurrence":
            item = replace(item, sentence=front + item.sentence)
        else:
            within = front if item.format == "intrasentence" else ""
            sentences = tuple(replace(s, text=within + s.text) for s in item.sentences)
            item = replace(item, context=front + item.context, sentences=sentences)
        made |= dict.fromkeys(found.ask(item, options, form, seed=0))
    return list(made)


def settled(device: str) -> float:
    """The time when all that was begun on the device is done."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def freed(device: str) -> None:
    """Gives back what earlier models held: the size of a pass is found by what is free."""
    import torch

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()


def multiply_rate(device: str, dtype: str, size: int, seconds: float = 1.0) -> float:
    """Operations a second of a product of large square matrices, the best in a second."""
    import torch

    a, b = (torch.randn(size, size, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
    torch.mm(a, b)
    best, end = float("inf"), settled(device) + seconds
    while (began := settled(device)) < end:
        torch.mm(a, b)
        best = min(best, settled(device) - began)
    return 2 * size**3 / best


def speed(folder: str, shape: Shape, dtype: str, rate: float, given: argparse.Namespace) -> dict[str, list[str]]:
    """The cells of each task: what its requests take, from texts to log-probabilities."""
    import torch

    model: Any = models.load(folder, LoadOptions(device=given.device, dtype=dtype, offline=True))
    cells = {}
    for task in TASKS:
        requests = asked(task, model, given.texts)
        for step in {step.what: step for step in model.steps(requests)}.values():
            model.do(step)  # weights load, the size of a pass is found, kernels warm up
        for field in fields(model.work):
            setattr(model.work, field.name, 0)
        if given.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats(given.device)
        began = settled(given.device)
        steps = list(model.steps(requests))
        planned = settled(given.device)
        for step in steps:
            model.do(step)
        ended, work = settled(given.device), model.work
        body, head = 12 * shape.layers * shape.width**2, shape.width * shape.vocabulary
        operations = 2 * body * work.tokens + 2 * head * work.heads
        whole, passes = ended - began, ended - planned
        peak = f"{torch.cuda.max_memory_allocated(given.device) / 2**30:.2f}" if "cuda" in given.device else "-"
        cells[task] = [
            str(work.tokens), str(work.passes), f"{work.largest} of {model.batch_tokens}", f"{planned - began:.2f}",
            f"{passes:.2f}", f"{work.tokens / whole:.0f}", f"{operations / whole / 1e12:.4g}",
            f"{operations / whole / rate:.1%}", f"{operations / passes / rate:.1%}", peak,
        ]  # fmt: skip
    return cells


def changes(name: str, folder: str, dtypes: list[str], given: argparse.Namespace, say: Say) -> list[str]:
    """Prints every metric of whole runs in both dtypes; returns the warnings that `evenhand compare` gives."""
    outs = [Path(f"{folder}-{dtype}") for dtype in dtypes]
    for dtype, out in zip(dtypes, outs, strict=True):
        for names, limit in ((TASKS, None), ("census-us", given.limit)):
            freed(given.device)
            run(folder, names, out=out, limit=limit, device=given.device, dtype=dtype, bootstrap=0, offline=True)
    found = compare(outs, bootstrap=0)
    for task, about in found["tasks"].items():
        for other, dtype in zip(about["against"], dtypes[1:], strict=True):
            for metric, row in other["metrics"].items():
                values = [row[key] for key in ("baseline", "other", "difference")]
                line(say, [name, task, metric, dtype, *(f"{v:.6g}" if v is not None else "-" for v in values)])
    return [warning.replace(str(Path(folder).parent) + os.sep, "") for warning in found["warnings"]]


def line(say: Say, cells: list[str] | tuple[str, ...], *, head: bool = False) -> None:
    """A row of a table, with the rule under it where it is the head."""
    say(f"| {' | '.join(cells)} |" + ("\n" + "|---" * len(cells) + "|" if head else ""))


def measure(given: argparse.Namespace, say: Say) -> None:
    """Prints both tables."""
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    cuda, dtypes = given.device.startswith("cuda"), given.dtypes.split(",")
    card = f"{torch.cuda.get_device_name(given.device)}, CUDA {torch.version.cuda}; " if cuda else ""
    versions = f"torch {torch.__version__.partition('+')[0]}, transformers {transformers.__version__}"
    say(f"{card}{machine().removesuffix(', no GPU used') if cuda else machine()}; {versions}")
    side = 8192 if cuda else 1024
    rates = {dtype: multiply_rate(given.device, dtype, side) for dtype in dtypes}
    shown = ", ".join(f"{dtype} {rate / 1e12:.4g} TFLOP/s" for dtype, rate in rates.items())
    say(f"multiply rate, {side} x {side}: {shown}; float32 precision {torch.get_float32_matmul_precision()}\n")
    with tempfile.TemporaryDirectory() as temporary:
        sizes = SIZES[given.size]
        folders = {name: make(name, shape, Path(temporary) / name, given.device) for name, shape in sizes.items()}
        line(say, SPEED_COLUMNS, head=True)
        for name, shape in sizes.items():
            for dtype in dtypes:
                freed(given.device)
                for task, cells in speed(folders[name], shape, dtype, rates[dtype], given).items():
                    line(say, [name, task, dtype, *cells])
        if len(dtypes) > 1:
            say("")
            line(say, ("model", "task", "metric", "dtype", dtypes[0], "this dtype", "difference"), head=True)
            warnings = [w for name, folder in folders.items() for w in changes(name, folder, dtypes, given, say)]
            say("\n" + "\n".join(f"warning: {warning}" for warning in warnings))


def main() -> None:
    """Looks for the device, then prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--size", choices=SIZES, default="large")
    parser.add_argument("--dtypes", help="separated by commas; float32,bfloat16 on a GPU, else float32")
    parser.add_argument("--texts", type=int, default=24_000, help="texts that are timed, per task")
    parser.add_argument("--limit", type=int, default=60, help="forms of census-us in the comparison")
    parser.add_argument("--out", type=Path, help="a file for what is printed")
    given = parser.parse_args()
    import torch

    if given.device.startswith("cuda") and not torch.cuda.is_available():
        parser.exit(2, "no CUDA device here; to try it on a CPU: --device cpu --size tiny --texts 60 --limit 2\n")
    given.dtypes = given.dtypes or ("float32,bfloat16" if given.device.startswith("cuda") else "float32")
    if given.out:
        given.out.write_text("")

    def say(text: str) -> None:
        print(text, flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.write(text + "\n")

    measure(given, say)


if __name__ == "__main__":
    main()
