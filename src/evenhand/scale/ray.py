"""A model's steps, done by workers on a Ray cluster: Ray Data's `map_batches` over actors that hold the model.

The plan is made here, with the tokenizer and without weights; steps are plain data, so workers get the same batches as
a process of its own would, and give the same numbers. What comes back is gathered here and kept by the run as always.
"""

import logging
import os
import pickle
import socket
import sys
import tempfile
import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from evenhand import models
from evenhand.errors import EvenhandError, InputError, ModelError
from evenhand.models import Batch, Identity, LoadOptions, Work
from evenhand.models.steps import Facts, Gathering, Step, Stepwise
from evenhand.requests import Request

TASKS = 2000
"""Pieces that a task's steps are dealt out in, at most: what a lost worker had begun is done again, piece by piece."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a worker says of the model that it loaded."""

    identity: Identity
    device: str
    facts: Facts | None


class Spread:
    """A model whose steps workers do."""

    def __init__(
        self, ref: str, options: LoadOptions, *, address: str, workers: int | None, gpus: float | None
    ) -> None:
        """Joins or starts a cluster, and loads the model on one worker to see what it is.

        Args:
            ref: the model, which every worker must find.
            options: how they load it.
            address: of the cluster; `auto` for the one that is there, or a new one on this machine.
            workers: how many; if None, one per GPU asked for, or one per machine.
            gpus: of each worker; if None, one where the cluster has any.

        Raises:
            InputError: Ray is not installed, there is no such cluster, it has too little, or the model's work cannot
                be divided.
        """
        model = models.load(ref, options)
        if not isinstance(model, Stepwise):
            raise InputError(f"--ray: the work of {ref} is not evenhand's to divide; run it without")
        self._ref, self._options = ref, replace(options, tell=_silent)
        self._model = model
        self.supports = model.supports
        self.work = Work()
        self._ray = _joined(address)
        self._batches: Any = None
        try:
            self._workers, self._share = _shares(self._ray, workers, gpus)
            if "num_gpus" not in self._share and options.device == "auto":  # a card that Ray did not give is not theirs
                self._options = replace(self._options, device="cpu")
            self._found = self._looked_up()
        except BaseException:
            self.close()
            raise
        model.told = self._found.facts
        if model.told and options.batch_tokens is None:  # workers that share a card share its memory
            part = min(1.0, self._share.get("num_gpus") or 1.0)
            model.told = replace(model.told, batch_tokens=int(part * model.told.batch_tokens))

    def _looked_up(self) -> Found:
        task = self._ray.remote(max_retries=2, **self._share)(_look)
        found: Found | Exception = _waited(self._ray, task.remote(self._ref, self._options))
        if isinstance(found, Exception):
            raise found
        return found

    @property
    def device(self) -> str:
        """Where the workers run."""
        return f"{self._found.device}, {self._workers} Ray worker{'s' * (self._workers > 1)}"

    def identity(self) -> Identity:
        """Who the workers say it is."""
        return self._found.identity

    def answer(self, requests: Sequence[Request], answered: Container[Request]) -> Iterator[Batch]:
        """Answers, as workers finish their steps."""
        if all(request in answered for request in requests):
            return
        gathering = Gathering(requests, answered)
        steps = [step for step in self._model.steps(requests) if gathering.wants(step)]
        for number, outcome, work in self._done(steps):
            if isinstance(outcome, Exception):
                raise outcome
            for field in fields(Work):
                merge = max if field.name == "largest" else int.__add__
                setattr(self.work, field.name, merge(getattr(self.work, field.name), work[field.name]))
            if done := gathering.add(steps[number], outcome):
                yield done

    def _done(self, steps: Sequence[Step]) -> Iterator[Any]:
        """Number, parts (or an error) and work of every step, as they come in."""
        import ray.data

        rows = [{"number": i, "step": pickle.dumps((step.what, step.load))} for i, step in enumerate(steps)]
        pool = ray.data.ActorPoolStrategy(size=min(self._workers, len(rows)))
        data = ray.data.from_items(rows, override_num_blocks=min(len(rows), TASKS)).map_batches(
            _Worker, fn_constructor_args=(self._ref, self._options, self._found.identity.fingerprint),
            batch_size=1, compute=pool, **self._share,
        )  # fmt: skip
        try:
            self._batches = iter(data.iter_batches(batch_size=None, prefetch_batches=0))
            for batch in self._batches:
                for packed in batch["done"]:
                    yield pickle.loads(packed)  # noqa: S301 - our own workers wrote it
        except (ray.exceptions.RayError, RuntimeError, OSError) as error:
            raise ModelError(f"Ray gave up: {_first_line(error)}") from error

    def close(self) -> None:
        """Leaves the cluster; one that was started here ends.

        Work that was cut short is ended first: a thread of Ray Data's that asks anything of Ray later would join the
        cluster again, by itself.
        """
        if self._batches is not None:
            with suppress(self._ray.exceptions.RayError, RuntimeError, OSError):
                self._batches.close()
            for thread in threading.enumerate():
                if type(thread).__module__.startswith("ray.data.") or thread.name == "iter_threaded":
                    thread.join(timeout=30)
        self._ray.shutdown()


class _Worker:
    """An actor that holds the model."""

    def __init__(self, ref: str, options: LoadOptions, fingerprint: str) -> None:
        self._wrong: Exception | None = None
        try:
            self._model: Any = _loaded(ref, options)
            if self._model.identity().fingerprint != fingerprint:
                self._wrong = ModelError(f"{ref} is not the same model on every worker: weights or dtype differ")
        except EvenhandError as error:
            self._wrong = type(error)(str(error))  # without its traceback, which cannot be sent

    def __call__(self, batch: Any) -> dict[str, list[bytes]]:
        done = []
        for number, packed in zip(batch["number"], batch["step"], strict=True):
            what, load = pickle.loads(packed)  # noqa: S301 - the run that started this worker wrote it
            if self._wrong is not None:
                done.append(pickle.dumps((int(number), self._wrong, asdict(Work()))))
                continue
            try:
                outcome: Any = self._model.do(Step(what, load, (), 0, {}))
            except EvenhandError as error:
                outcome = type(error)(str(error))
            done.append(pickle.dumps((int(number), outcome, asdict(self._model.work))))
            for field in fields(Work):  # the model's parts hold on to this one
                setattr(self._model.work, field.name, 0)
        return {"done": done}


def _loaded(ref: str, options: LoadOptions) -> Any:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    return models.load(ref, options)


def _look(ref: str, options: LoadOptions) -> Found | Exception:
    """What the model is, on a worker. An error is handed back, since Ray would wrap it."""
    try:
        model = _loaded(ref, options)
        return Found(model.identity(), model.device, model.facts)
    except EvenhandError as error:
        return type(error)(str(error))


def _silent(line: str) -> None:
    """Workers say nothing."""


def _joined(address: str) -> Any:
    """Ray, connected."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault(
        "RAY_BACKEND_LOG_LEVEL", "fatal"
    )  # its processes tell stderr of things that are no one's fault
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InputError(f"--ray needs {error.name}: pip install 'evenhand[ray]'") from None
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or _current() or "local"
    if address != "local" and not _answers(address):  # Ray would wait for it for very long
        raise InputError(f"--ray {address}: nothing answers there; write --ray HOST:PORT, or --ray local for a new one")
    try:
        with _unheard():
            ray.init(
                address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
            )  # fmt: skip
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise InputError(f"--ray {address}: no cluster answers there: {_first_line(error)}") from None
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def _current() -> str | None:
    """The address of the cluster that this machine is part of, as Ray notes it down, if it is still there."""
    note = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    try:
        address = note.read_text().strip()
    except OSError:
        return None
    return address if _answers(address) else None


def _answers(address: str) -> bool:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10):
            return True
    except (OSError, ValueError):
        return False


@contextmanager
def _unheard() -> Iterator[None]:
    """Without what Ray's own code, which no Python setting reaches, writes to stderr while it starts."""
    sys.stderr.flush()
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _shares(ray: Any, workers: int | None, gpus: float | None) -> tuple[int, dict[str, Any]]:
    """How many workers, and what each holds of the cluster."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    cores = [int(node["CPU"]) for node in nodes]
    cards = sum(node.get("GPU", 0) for node in nodes)
    if not cores:
        raise InputError("--ray: the cluster has no machine with a processor to give")
    if gpus is None:
        gpus = 1 if cards else 0
    if gpus > cards:
        raise InputError(f"--ray-gpus {gpus:g}: the cluster has {cards:g} GPUs")
    count = workers or (int(cards // gpus) if gpus else len(nodes))
    per = max(1, min(*cores, sum(cores) // count))
    if sum(core // per for core in cores) < count:
        raise InputError(f"--ray-workers {count}: the cluster has {sum(cores)} processors, in machines of {cores}")
    return count, {"num_cpus": per, **({"num_gpus": gpus} if gpus else {})}


def _waited(ray: Any, future: Any) -> Any:
    try:
        return ray.get(future)
    except (ray.exceptions.RayError, RuntimeError, OSError) as error:
        raise ModelError(f"Ray gave up on loading the model: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
