"""Rows to log-probabilities with a transformers model: the body once per batch, the head only where it is read.

The vocabulary head can cost more than the whole body (Gemma 3 270M: 63%), so the body runs alone, the hidden states
that are read are gathered, and the model's own forward runs on those with its body stubbed out: whatever a model does
between its last hidden state and its logits (transforms, soft caps, scales) is done, without knowing of it here.
Whether that split, and rows that share prefixes, are right for this model is tried on a few tokens when it loads; where
they are not, plainer ways are taken.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models import Work
from evenhand.models.plan import Path, Read, Row, Slot, trees

Reading = Literal["causal", "masked", "decoder", "vectors"]
T = TypeVar("T")
HEAD_BYTES = {"cpu": 128 << 20, "cuda": 1 << 30}
"""Logits that are held at a time: few stay in a processor's reach, many keep a card busy."""
TOLERANCE = {torch.float32: 1e-3}
WINDOWS = ("sliding_window", "attention_chunk_size")  # a mask of one's own takes the place of these
TRIAL_TOKENS, MIN_TOKENS, MAX_TOKENS = 4096, 512, 65536
OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "alloc_failed")


class Forward:
    """A loaded model as a function from rows to log-probabilities."""

    def __init__(self, model: Any, *, pad: int, work: Work, reading: Reading) -> None:
        """Tries out the split and, for causal models, rows of shared prefixes.

        Args:
            model: a transformers model with a vocabulary head.
            pad: a token for padding.
            work: counts what is done.
            reading: what rows are: texts read left to right, texts read at masks, or what a decoder says behind a
                row's source (few tokens a row, so that the head runs at all of them); or vectors alone are wanted.
        """
        self.model, self.work = model, work
        self._pad = pad
        self._room: int | None = None
        self._body: Any = None
        self._reading = reading
        self.trees = False
        config = model.config.get_text_config()
        said = [getattr(config, name, None) for name in WINDOWS]
        self.window: int | None = min((size for size in said if size), default=None)
        self._settings = {"use_cache": False} if reading == "causal" or model.config.is_encoder_decoder else {}
        if reading == "vectors":
            self._body = model
        if reading in ("decoder", "vectors"):
            return
        tokens = [t for t in range(config.vocab_size) if t != pad]
        picks = [tokens[i * (len(tokens) - 1) // 10] for i in range(11)]
        trials = [Path(tuple(picks[:6]), 1, 0, 0), Path((*picks[:3], *picks[7:]), 1, 0, 1)]
        rows = [Row(list(p.tokens[:-1]), list(range(5)), list(range(-1, 4))) for p in trials]
        for row, path in zip(rows, trials, strict=True):
            row.reads = [_read(node, path) for node in range(len(row.tokens))]
        want = dict(self.logprobs(rows))
        for body in _bodies(model):
            self._body = body
            if self._agrees(rows, want):
                break
            self._body = None
        if reading == "causal":
            self.trees = True
            self.trees = self._agrees(trees(trials, 64), want)

    @cached_property
    def fitting(self) -> int:
        """How many tokens a pass may have on this GPU: a power of two, by the memory that a small pass takes."""
        rows = [Row([self._pad] * 64, list(range(64)), list(range(-1, 63))) for _ in range(TRIAL_TOKENS // 64)]
        for i, row in enumerate(rows):
            row.reads = [Read(63, self._pad, Slot(i, 0, 0))]
            row.source = tuple(row.tokens) if self._reading == "decoder" else ()
        trial = partial(self.vectors, first=False) if self._reading == "vectors" else self.logprobs
        device = self.model.device
        trial(rows)  # what is allocated once and stays
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        trial(rows)
        taken = max(1, torch.cuda.max_memory_allocated(device) - before)
        torch.cuda.empty_cache()
        return fitting(torch.cuda.mem_get_info(device)[0], taken / TRIAL_TOKENS)

    def _agrees(self, rows: list[Row], want: dict[Slot, float]) -> bool:
        tolerance = TOLERANCE.get(self.model.dtype, 0.1)
        try:
            got = dict(self.logprobs(rows))
        except (
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
            ModelError,
        ):
            return False
        return all(abs(got[slot] - value) <= tolerance for slot, value in want.items())

    def logprobs(self, rows: Sequence[Row]) -> list[tuple[Slot, float]]:
        """The log-probability of every read of the rows, in nats.

        A batch that does not fit in memory is halved, and so is every later one of its size.

        Raises:
            ModelError: one row alone does not fit.
        """
        return self._fitted(rows, self._run)

    def vectors(self, rows: Sequence[Row], *, first: bool) -> list[NDArray[np.float32]]:
        """Per row: the mean of its tokens' last hidden states, or the first token's. Memory is as for `logprobs`.

        Raises:
            ModelError: one row alone does not fit, or a vector is not finite.
        """
        return self._fitted(rows, partial(self._pool, first=first))

    def _fitted(self, rows: Sequence[Row], run: Callable[[Sequence[Row], int], list[T]]) -> list[T]:
        width = max(len(row.tokens) for row in rows)
        if len(rows) > 1 and self._room is not None and width * len(rows) > self._room:
            return self._halves(rows, run)
        try:
            with torch.inference_mode():
                return run(rows, width)
        except (RuntimeError, MemoryError, IndexError) as error:
            if not out_of_memory(error):
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise ModelError(f"the model's forward pass failed: {reason}") from error
            if len(rows) == 1:
                raise ModelError(
                    f"out of memory on one row of {width} tokens; a smaller --batch-tokens may help"
                ) from error
        self._room = width * (len(rows) - 1)
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()
        return self._halves(rows, run)

    def _halves(self, rows: Sequence[Row], run: Callable[[Sequence[Row], int], list[T]]) -> list[T]:
        half = len(rows) // 2
        return self._fitted(rows[:half], run) + self._fitted(rows[half:], run)

    def _pool(self, rows: Sequence[Row], width: int, *, first: bool) -> list[NDArray[np.float32]]:
        inputs = self._inputs(rows, width)
        if self._body is None:
            hidden = self.model(**inputs, output_hidden_states=True).hidden_states[-1]
        else:
            hidden = self._body(**inputs).last_hidden_state
        lengths = torch.tensor([len(row.tokens) for row in rows], device=hidden.device)
        self._count(rows, width)
        if first:
            pooled = hidden[:, 0].float()
        else:
            there = torch.arange(width, device=hidden.device) < lengths[:, None]
            pooled = (hidden.float() * there[:, :, None]).sum(1) / lengths[:, None]
        if not torch.isfinite(pooled).all():
            raise ModelError("the model gives a vector that is not finite")
        return list(pooled.cpu().numpy())

    def _count(self, rows: Sequence[Row], width: int) -> None:
        real = sum(len(row.tokens) for row in rows)
        self.work.passes += 1
        self.work.rows += len(rows)
        self.work.tokens += real
        self.work.padding += width * len(rows) - real
        self.work.largest = max(self.work.largest, width * len(rows))

    def _run(self, rows: Sequence[Row], width: int) -> list[tuple[Slot, float]]:
        inputs = self._inputs(rows, width)
        at: dict[int, int] = {}
        reads = [
            (at.setdefault(i * width + read.node, len(at)), read.target, read.slot)
            for i, row in enumerate(rows)
            for read in row.reads
        ]
        reads.sort(key=lambda read: read[0])
        if self._body is None:
            logits = self.model(**inputs).logits.flatten(0, 1)
            flat = logits[torch.tensor(list(at), device=logits.device)]
            heads, values = width * len(rows), _pick(flat, reads, 0)
        else:
            output = self._body(**inputs)
            states = output.last_hidden_state.flatten(0, 1)
            hidden = states[torch.tensor(list(at), device=states.device)]  # a large model's end may be on another card
            heads, values = len(at), torch.cat(list(self._head(hidden, type(output), reads)))
        self._count(rows, width)
        self.work.heads += heads
        found = values.cpu().double().numpy()
        return [(slot, float(value)) for (_, _, slot), value in zip(reads, found, strict=True)]

    def _inputs(self, rows: Sequence[Row], width: int) -> dict[str, Any]:
        ids, there = padded([row.tokens for row in rows], self._pad)
        if rows[0].source:
            sources, sources_there = padded([row.source for row in rows], self._pad)
            inputs = {"input_ids": sources, "attention_mask": sources_there, "decoder_input_ids": ids}
            return {k: v.to(self.model.device) for k, v in inputs.items()} | self._settings
        inputs = {"input_ids": ids}
        if self.trees and not all(row.plain for row in rows):
            depths = np.zeros((len(rows), width), dtype=np.int64)
            seen = np.zeros((len(rows), 1, width, width), dtype=bool)
            seen[:, 0, range(width), range(width)] = True  # padding sees itself: a row of nothing would be NaN
            for i, row in enumerate(rows):
                n = len(row.tokens)
                depths[i, :n] = row.depths
                seen[i, 0, :n, :n] = row.visible()
            unseen = torch.from_numpy(~seen).to(self.model.device)
            hidden = torch.zeros(seen.shape, dtype=self.model.dtype, device=unseen.device)
            hidden.masked_fill_(unseen, torch.finfo(self.model.dtype).min)
            inputs |= {"position_ids": torch.from_numpy(depths), "attention_mask": hidden}
        elif not there.all():
            inputs["attention_mask"] = there
        return {k: v.to(self.model.device) for k, v in inputs.items()} | self._settings

    def _head(self, hidden: Any, output: Any, reads: list[tuple[int, int, Slot]]) -> Iterator[Any]:
        """Log-probabilities of the reads, in bounded chunks of hidden states; reads are sorted by position."""
        vocabulary = self.model.config.get_text_config().vocab_size
        step = max(1, HEAD_BYTES.get(hidden.device.type, HEAD_BYTES["cpu"]) // (4 * vocabulary))
        places = np.array([read[0] for read in reads])
        for low in range(0, len(hidden), step):
            chunk = hidden[low : low + step].unsqueeze(0)
            with self._stubbed(output(last_hidden_state=chunk)):
                dummy = torch.zeros(chunk.shape[:2], dtype=torch.long, device=chunk.device)
                logits = self.model(input_ids=dummy).logits[0]
            first, last = np.searchsorted(places, [low, low + step])
            yield _pick(logits, reads[first:last], low)

    @contextmanager
    def _stubbed(self, output: Any) -> Iterator[None]:
        """The model with a body that gives `output`."""
        own = self._body.__dict__.get("forward")
        self._body.forward = lambda *args, **kwargs: output
        try:
            yield
        finally:
            if own is None:
                del self._body.forward
            else:
                self._body.forward = own


def out_of_memory(error: Exception) -> bool:
    """Whether that is what a failure comes from; torch tells in words."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in OUT_OF_MEMORY)


def fitting(free: int, per_token: float) -> int:
    """The largest power of two of tokens that takes half of the free bytes at most, within sensible bounds."""
    tokens = max(MIN_TOKENS, min(MAX_TOKENS, int(free / 2 / per_token)))
    return 1 << (tokens.bit_length() - 1)


def _read(node: int, path: Path) -> Read:
    return Read(node, path.tokens[node + 1], Slot(path.request, path.choice, node))


def _bodies(model: Any) -> Iterator[Any]:
    """The modules that may be the model without its head."""
    seen = [model]
    for body in (getattr(model, "base_model", None), getattr(model, "get_decoder", lambda: None)()):
        if body is not None and not any(body is other for other in seen):
            seen.append(body)
            yield body


def padded(sequences: Sequence[Sequence[int]], pad: int) -> tuple[Any, Any]:
    """The sequences padded on the right to the longest, and a mask that is 1 where they are: int64 tensors."""
    shape = (len(sequences), max(map(len, sequences)))
    ids, there = np.full(shape, pad, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for i, sequence in enumerate(sequences):
        ids[i, : len(sequence)] = sequence
        there[i, : len(sequence)] = 1
    return torch.from_numpy(ids), torch.from_numpy(there)


def _pick(logits: Any, reads: list[tuple[int, int, Slot]], offset: int) -> Any:
    """Log softmax of the targets, float32: shape (reads,)."""
    values = logits.float()
    rows = torch.tensor([read[0] - offset for read in reads], device=values.device)
    targets = torch.tensor([read[1] for read in reads], device=values.device)
    return values[rows, targets] - values.logsumexp(-1)[rows]
