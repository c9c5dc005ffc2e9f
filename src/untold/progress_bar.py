"""Shows how far long work is, on standard error: bars on a terminal, lines now and then in a log.

Whoever works calls `task` or `track`. The command line chooses by `show` what is seen; without it
nothing is shown and next to nothing computed, so that users of the library see nothing.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
ProgressMode = Literal["auto", "plain", "none"]
_INTERVAL = 0.1  # seconds between two updates of a display
_LINE_SECONDS = 10.0  # between two lines of a log


class ProgressBars:
    """Draws a row for each task; rows vanish at the end."""

    def __init__(self, console: "Console") -> None:
        self.console, self._rows = console, None

    def add_task(self, what: str, **state: Any) -> int:
        """Adds a row."""
        self._rows = self._rows or _draw_rows(self.console)
        return int(self._rows.add_task(what, **state))

    def update(self, number: int, **state: Any) -> None:
        """Moves a bar."""
        if self._rows is not None:
            self._rows.update(number, **state)

    def remove_task(self, number: int) -> None:
        """Removes a row; the last one takes the display with it."""
        if self._rows is not None and len(self._rows.tasks) > 1:
            self._rows.remove_task(number)
        else:
            self.stop()

    def stop(self) -> None:
        """Leaves the terminal as it was, also if tasks were broken off."""
        if self._rows is not None:
            self._rows.stop()
            self._rows = None


def _draw_rows(console: "Console") -> Any:
    from rich import progress  # only for who sees bars
    from rich.table import Column

    # The note takes what is left of the line, so that it squeezes no bar.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    rows = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}", markup=False, table_column=rest),
        console=console,
        expand=True,
        transient=True,
        refresh_per_second=5,
        redirect_stdout=False,  # it is the result, which may go to a file
        redirect_stderr=False,
    )
    rows.start()
    return rows


class ProgressLines:
    """Prints a line when a task begins, and more if it takes long."""

    def __init__(self, console: "Console", seconds: float = _LINE_SECONDS) -> None:
        self.console, self._seconds = console, seconds
        self._tasks: dict[int, tuple[str, float]] = {}  # what, and when it was last told

    def add_task(self, what: str, *, total: int | None, completed: int, **_: Any) -> int:
        """Prints what begins."""
        number = max(self._tasks, default=0) + 1
        self._tasks[number] = what, time.monotonic()
        self._print(what if total is None else f"{what}: {completed:,} of {total:,}")
        return number

    def update(self, number: int, *, completed: int, total: int | None, note: str) -> None:
        """Prints how far a task is, unless it has just done so."""
        what, told = self._tasks[number]
        if time.monotonic() - told >= self._seconds:
            self._tasks[number] = what, time.monotonic()
            count = f"{completed:,}" if total is None else f"{completed:,} of {total:,}"
            self._print(f"{what}: {count}{'  ' if note else ''}{note}")

    def remove_task(self, number: int) -> None:
        """Forgets a task."""
        del self._tasks[number]

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


Display = ProgressBars | ProgressLines
_chosen: ContextVar[tuple[Display | None, ...]] = ContextVar("chosen", default=())


def active_display() -> Display | None:
    """Returns the display that was chosen, if there is one."""
    return next(iter(_chosen.get()), None)


def is_decided() -> bool:
    """Returns True if somebody has chosen a display, or that there be none."""
    return bool(_chosen.get())


@contextmanager
def show_on(display: Display | None) -> Iterator[None]:
    """Shows all tasks within the block on this display, or nowhere."""
    token = _chosen.set((display,))
    try:
        yield
    finally:
        _chosen.reset(token)
        if isinstance(display, ProgressBars):
            display.stop()


def show(mode: ProgressMode) -> AbstractContextManager[None]:
    """Activates a display: with `auto` bars on a terminal, and nothing elsewhere."""
    console = error_console()
    # Variables such as FORCE_COLOR make rich take a log for a terminal; the stream knows better.
    is_seen = console.is_interactive and sys.stderr is not None and sys.stderr.isatty()
    if os.environ.get("RANK", "0") != "0":  # of the processes of torchrun only the first one speaks
        return show_on(None)
    if mode == "plain":
        return show_on(ProgressLines(console))
    return show_on(ProgressBars(console) if mode == "auto" and is_seen else None)


def error_console() -> "Console":
    """Returns the console of standard error, the same for lines and bars, which must not mix."""
    return _console_of(sys.stderr)


@lru_cache(maxsize=1)
def _console_of(_stream: object) -> "Console":
    """Makes a console anew when standard error is another stream than before."""
    from untold.terminal import console

    return console(stderr=True)


class Task:
    """Counts what is done of one piece of work, and tells a display now and then."""

    def __init__(self, display: Display | None, what: str, total: int | None, done: int) -> None:
        self.done, self.total, self.note = done, total, ""
        self._display, self._next = display, 0.0  # when the display is told again
        if display is not None:
            self._number = display.add_task(what, total=total, completed=done, note="")

    def advance(self, count: int = 1) -> None:
        """Counts more that is done."""
        self.done += count
        if self.is_shown_now():
            self.show()

    def is_shown_now(self) -> bool:
        """Returns True if the display has not been told for a moment."""
        return self._display is not None and time.monotonic() >= self._next

    def show(self) -> None:
        """Tells the display what is done, whenever it was last told."""
        if self._display is not None:
            state = {"completed": self.done, "total": self.total, "note": self.note}
            self._display.update(self._number, **state)
            self._next = time.monotonic() + _INTERVAL

    def end(self) -> None:
        """Takes the task from the display."""
        if self._display is not None:
            self.show()
            self._display.remove_task(self._number)


@contextmanager
def task(what: str, total: int | None = None) -> Iterator[Task]:
    """Shows that something is being done; the block calls `advance`."""
    begun = Task(active_display(), what, total, 0)
    try:
        yield begun
    finally:
        begun.end()


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yields the items, and counts one as done when the next is asked for."""
    with task(what, total) as begun:
        for item in items:
            yield item
            begun.advance()
