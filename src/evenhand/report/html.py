"""One self-contained HTML page of one run or several: no network, no file beside it.

Needs the extra `report`. The page forbids itself every request (Content-Security-Policy), and runs no script but its
own two, which the policy names by hash.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from evenhand.errors import EvenhandError, InputError

NAME = "report.html"


def installed() -> bool:
    """Whether the packages of the extra are there."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("jinja2", "altair", "vl_convert"))


def write(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Writes the page of some runs.

    Args:
        runs: run folders, or files of results.json's kind; several are shown side by side.
        out: the file.

    Returns:
        The file.

    Raises:
        InputError: the extra is not installed, a run is no run folder, or the file cannot be written.
    """
    from evenhand.folder import write as write_whole

    if not runs:
        raise InputError("a report needs a run folder")
    if not installed():
        raise InputError("a report needs more packages: pip install 'evenhand[report]'")
    from evenhand.report.page import page
    from evenhand.report.source import views

    path = Path(out)
    if path.is_dir():
        raise InputError(f"--out {path} is a folder; name a file, such as {path / NAME}")
    text = page(views([Path(run) for run in runs]))
    try:
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def beside(folder: Path, tell: Callable[[str], None], *, wanted: bool = True, runs: Sequence[Path] = ()) -> Path | None:
    """A run's page in its own folder, where the extra is installed; what goes wrong is a warning and nothing more.

    With `runs`, it is the page of those, in a folder above them. A page of an earlier state of the folder never stays
    beside newer results.
    """
    path = folder / NAME
    if wanted and installed():
        try:
            return write(runs or [folder], path)
        except Exception as error:
            said = str(error) if isinstance(error, EvenhandError) else f"{type(error).__name__}: {error}"
            tell(f"warning: no report: {said.splitlines()[0]}")
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        tell(f"warning: {path} is of an earlier run and cannot be removed: {error.strerror or error}")
    return None
