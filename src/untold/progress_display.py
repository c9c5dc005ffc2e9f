"""Shows progress on standard error: bars on a terminal, lines now and then in a log."""

import os
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from untold.progress_bar import Display, show_on
from untold.terminal import console

ProgressMode = Literal["auto", "plain", "none"]
_LINE_SECONDS = 10.0  # between two lines of a log


def error_console() -> Console:
    """Returns the console of standard error, the same for lines and bars, which must not mix."""
    return _console_of(sys.stderr)


@lru_cache(maxsize=1)
def _console_of(_stream: object) -> Console:
    """Makes a console anew when standard error is another stream than before."""
    return console(stderr=True)


def show(mode: ProgressMode) -> AbstractContextManager[None]:
    """Activates a display: with `auto` bars on a terminal, and nothing elsewhere."""
    console = error_console()
    display: Display | None = None
    if os.environ.get("RANK", "0") == "0":  # of the processes of torchrun only the first one speaks
        if mode == "plain":
            display = ProgressLines(console)
        elif mode == "auto" and _is_seen(console):
            display = ProgressBars(console)
    return show_on(display)


def _is_seen(console: Console) -> bool:
    """Asks the stream, too, since variables such as FORCE_COLOR make rich take a log for one."""
    return console.is_interactive and sys.stderr is not None and sys.stderr.isatty()


class ProgressBars:
    """Draws a row for each task: its bar, count and remaining time; rows vanish at the end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._rows: Progress | None = None

    def begin(self, what: str, total: int | None, done: int) -> int:
        """Adds a row."""
        if self._rows is None:
            self._rows = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                _CountColumn(),
                _TimeColumn(),
                # The note takes what is left of the line, so that it squeezes no bar.
                TextColumn("{task.fields[note]}", markup=False, table_column=_rest_of_line()),
                console=self.console,
                expand=True,
                transient=True,
                refresh_per_second=5,
                # Standard output is the result, which may go to a file.
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._rows.start()
        return int(self._rows.add_task(what, total=total, completed=done, first=done, note=""))

    def update(self, number: int, done: int, total: int | None, note: str) -> None:
        """Moves a bar."""
        if self._rows is not None:
            self._rows.update(TaskID(number), completed=done, total=total, note=note)

    def end(self, number: int) -> None:
        """Removes a row, and the whole display with the last one."""
        if self._rows is None:
            return
        if len(self._rows.tasks) == 1:
            self.close()
        else:
            self._rows.remove_task(TaskID(number))

    def close(self) -> None:
        """Removes all rows."""
        if self._rows is not None:
            self._rows.stop()
            self._rows = None


def _rest_of_line() -> Column:
    return Column(ratio=1, no_wrap=True, overflow="ellipsis")


class _CountColumn(ProgressColumn):
    """Shows 1,234/5,000."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(f"{int(task.completed):,}" if task.completed else "")
        return Text(f"{int(task.completed):,}/{int(task.total):,}", style="bold")


class _TimeColumn(ProgressColumn):
    """Shows the time that is left, and the time that has passed where nobody knows how much is."""

    def render(self, task: Task) -> Text:
        left = task.time_remaining  # by the speed of the last half minute; None at the beginning
        if left is None:
            first = int(task.fields["first"])
            left = _seconds_left(first, int(task.completed), task.total, task.elapsed or 0.0)
        if left is None:
            return Text(_clock(task.elapsed or 0.0), style="cyan")
        return Text(f"{_clock(left)} left", style="cyan")


@dataclass
class _Line:
    """Remembers what a log knows of one task."""

    what: str
    first: int
    began: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)


class ProgressLines:
    """Prints a line when a task begins, and more if it takes long."""

    def __init__(self, console: Console, seconds: float = _LINE_SECONDS) -> None:
        self.console = console
        self._seconds = seconds
        self._lines: dict[int, _Line] = {}

    def begin(self, what: str, total: int | None, done: int) -> int:
        """Prints what begins."""
        number = max(self._lines, default=0) + 1
        self._lines[number] = _Line(what, done)
        self._say(what if total is None else f"{what}: {done:,} of {total:,}")
        return number

    def update(self, number: int, done: int, total: int | None, note: str) -> None:
        """Prints how far a task is, unless it has just done so."""
        line, now = self._lines[number], time.monotonic()
        if now - line.told < self._seconds:
            return
        line.told = now
        count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        left = _seconds_left(line.first, done, total, now - line.began)
        ending = "" if left is None else f", {_clock(left)} left"
        self._say(f"{line.what}: {count}{ending}{'  ' if note else ''}{note}")

    def end(self, number: int) -> None:
        """Prints how long a task took, if it took long."""
        line = self._lines.pop(number)
        seconds = time.monotonic() - line.began
        if seconds >= self._seconds:
            self._say(f"{line.what}: over after {_clock(seconds)}")

    def close(self) -> None:
        """Has nothing to remove."""

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _seconds_left(first: int, done: int, total: int | float | None, elapsed: float) -> float | None:
    """Expects the rest to go as fast as what is done; None if nothing is, or nobody knows."""
    if total is None or done <= first:
        return None
    return max(total - done, 0) * elapsed / (done - first)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
