"""How far a run is, on stderr: a bar with rate and time left where stderr is a terminal."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Rate(ProgressColumn):
    """Requests per second of this run."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s")


class Bar:
    """Shows a run's progress; silent when quiet, or when stderr is not a terminal (lines are still said)."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._progress: Progress | None = None

    def say(self, line: str) -> None:
        """A line for the user."""
        if not self._quiet:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, task: str, total: int, done: int) -> None:
        """A task begins."""
        self.end()
        if self._quiet or not self._console.is_terminal:
            return
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn(),
            console=self._console, transient=True,
        )  # fmt: skip
        self._progress.add_task(task, total=total, completed=done)
        self._progress.start()

    def advance(self, n: int) -> None:
        """More requests are answered."""
        if self._progress:
            self._progress.advance(self._progress.task_ids[0], n)

    def end(self) -> None:
        """The task, or the run, is over."""
        if self._progress:
            self._progress.stop()
            self._progress = None
