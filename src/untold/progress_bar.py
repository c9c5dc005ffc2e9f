"""Progress of long work: whoever works says how far it is, and a display may show it.

The command line activates a display (see progress_display.py). Without one nothing is shown
and next to nothing is computed, so that users of the library see nothing.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
_INTERVAL = 0.1  # seconds between two updates of a display


@runtime_checkable
class Display(Protocol):
    """Shows tasks, several at a time."""

    def begin(self, what: str, total: int | None, done: int, /) -> int:
        """Shows a new task and returns its number; `total` None means that nobody knows it."""
        ...

    def update(self, number: int, done: int, total: int | None, note: str, /) -> None:
        """Shows how far a task is."""
        ...

    def end(self, number: int, /) -> None:
        """Shows that a task is over."""
        ...

    def close(self) -> None:
        """Leaves the terminal as it was, also if tasks were broken off."""
        ...


_active: ContextVar[Display | None] = ContextVar("active", default=None)
_decided: ContextVar[bool] = ContextVar("decided", default=False)


def active_display() -> Display | None:
    """Returns the display that is active here, if there is one."""
    return _active.get()


def is_decided() -> bool:
    """Returns True if somebody has chosen a display, or that there be none."""
    return _decided.get()


@contextmanager
def show_on(display: Display | None) -> Iterator[None]:
    """Shows all tasks within the block on this display, or nowhere."""
    tokens = _active.set(display), _decided.set(True)
    try:
        yield
    finally:
        _active.reset(tokens[0])
        _decided.reset(tokens[1])
        if display is not None:
            display.close()


class Task:
    """Counts what is done of one piece of work, and tells a display now and then."""

    def __init__(self, display: Display | None, what: str, total: int | None, done: int) -> None:
        self.done, self.total, self.note = done, total, ""
        self._display = display
        self._number = 0 if display is None else display.begin(what, total, done)
        self._next = 0.0  # when the display is told again

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
            self._display.update(self._number, self.done, self.total, self.note)
            self._next = time.monotonic() + _INTERVAL

    def end(self) -> None:
        """Takes the task from the display."""
        if self._display is not None:
            self.show()
            self._display.end(self._number)


@contextmanager
def task(what: str, total: int | None = None) -> Iterator[Task]:
    """Shows that something is being done; the block calls `advance`.

    Without a total a display shows only that work goes on, and for how long it has.
    """
    begun = Task(_active.get(), what, total, 0)
    try:
        yield begun
    finally:
        begun.end()


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yields the items, and counts one as done when the next is asked for."""
    if _active.get() is None:
        yield from items
        return
    with task(what, total) as begun:
        for item in items:
            yield item
            begun.advance()
