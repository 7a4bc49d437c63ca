"""Several models: a run folder each, then every run against the first."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand.errors import InputError, ModelError
from evenhand.prepare import loaded, prepare
from evenhand.run import Progress, Run, Silent, execute
from evenhand.spec import RunSpec, asked, slug

COMPARISON, PAGE = "comparison.json", "report.html"


@dataclass(frozen=True, slots=True)
class Many:
    """Several models' runs: the folder above them, each run, what failed, and the comparison.

    `comparison` is what comparison.json holds; None where fewer than two models were measured. `failures` are without
    their tracebacks: those would hold the models that failed.
    """

    path: Path
    runs: dict[str, Run]
    failures: dict[str, Exception]
    comparison: dict[str, Any] | None


def run_many(
    models: Sequence[str],
    tasks: Sequence[str] | str | None = None,
    *,
    out: str | Path = "runs",
    data: Mapping[str, str | Path] | None = None,
    pack: str | Path | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
    done: Callable[[Run], None] = lambda run: None,
    failed: Callable[[str, Exception], None] = lambda model, error: None,
    **settings: Any,
) -> Many:
    """Measures several models one after another, each in a folder of its own, and compares them with the first.

    A model that fails does not stop the others. One model is let go before the next one loads.

    Args:
        models: references as `evenhand.run` takes them.
        tasks: names of benchmarks, as for `evenhand.run`.
        out: the folder above the run folders, each named after its model; comparison.json is put there.
        data: as for `evenhand.run`.
        pack: as for `evenhand.run`.
        options: as for `evenhand.run`.
        progress: told how far each run is.
        done: called with each run that is finished.
        failed: called with each model that failed and its error, while the traceback is there.
        **settings: as for `evenhand.run`.

    Returns:
        The runs, the failures and the comparison.

    Raises:
        InputError: models, tasks, data or options are wrong; no model was loaded then.
    """
    told, above = progress or Silent(), Path(out)
    folders = _folders(models, above)
    specs = [
        asked(model, tasks, out=path, data=data, pack=pack, options=options, **settings)
        for model, path in folders.items()
    ]
    prepared = prepare(specs[0])
    for spec in specs:
        _there(spec, told)
    _open(above)
    runs: dict[str, Run] = {}
    failures: dict[str, Exception] = {}
    for i, spec in enumerate(specs, 1):
        told.say(f"{spec.model} ({i} of {len(specs)})")
        try:
            runs[spec.model] = execute(spec, told, prepared)
        except Exception as error:
            told.end()
            failed(spec.model, error)
            failures[spec.model] = error.with_traceback(None)
            error.__cause__ = error.__context__ = None
        else:
            done(runs[spec.model])
        gc.collect()  # a model may be part of a cycle: it goes before the next one comes
    comparison = None
    if len(runs) > 1:
        from evenhand.compare import compare
        from evenhand.folder import to_json, write

        paths = [found.path for found in runs.values()]
        comparison = compare(paths, bootstrap=specs[0].bootstrap, seed=specs[0].seed, leave_out=True)
        write(above / COMPARISON, to_json(comparison))
    return Many(above, runs, failures, comparison)


def _there(spec: RunSpec, told: Progress) -> None:
    """A mistake in the last model's name is told before the first is measured; a model that fails has its turn."""
    try:
        with loaded(spec.here(), told.say):
            pass
    except ModelError:
        pass
    except InputError as error:
        if spec.model.rpartition(":")[2] in str(error):
            raise
        raise InputError(f"{spec.model}: {error}") from None
    finally:
        gc.collect()


def _folders(models: Sequence[str], above: Path) -> dict[str, Path]:
    """Each model's run folder; two models never share one."""
    found: dict[str, Path] = {}
    for model in models:
        if model in found:
            raise InputError(f"{model} is named twice")
        path = above / slug(model)
        if same := next((other for other in found if found[other].name.lower() == path.name.lower()), None):
            raise InputError(
                f"{same} and {model} would both be kept in {path}; run them apart, each with its own --out, "
                "then `evenhand compare`"
            )
        found[model] = path
    return found


def _open(above: Path) -> None:
    """Makes the folder above the runs; what an earlier command said there of all of them is no longer so."""
    if (above / "run.json").exists():
        raise InputError(f"{above} is a run folder; several models need a folder above theirs: choose another --out")
    try:
        above.mkdir(parents=True, exist_ok=True)
        for name in (COMPARISON, PAGE):
            (above / name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {above}: {error.strerror or error}") from None
