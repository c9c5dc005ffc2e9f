"""SIGINT and SIGTERM: a command stops within a second, and training after a whole update.

In a command the first signal raises `Stopped` in the main thread, so that `with` blocks tidy up on
the way out; the last line says what is saved. Where the main thread does not come out in time, as
inside a long call of a C library, a watcher thread ends the process. Files stay whole or absent in
either case: see files.py.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from untold.errors import one_line

logger = logging.getLogger(__name__)

_GRACE = 0.5  # seconds that the main thread has to tidy up
_FAREWELL = 0.2  # seconds that the last words may take, for a reader may be stuck
_CODES = (128 + signal.SIGINT, 128 + signal.SIGTERM)
_TIDY = b"\x1b[?25h\r\x1b[K"  # shows the cursor, which bars hide, and clears their line


class Stopped(BaseException):
    """Unwinds the main thread after a signal; no `except Exception` catches it."""


class PutOffError(Exception):
    """Breaks off work that the resumed run begins anew, such as a validation."""


@dataclass
class Interrupted:
    """Holds the number of the signal that asked the run to stop; zero means none."""

    signal: int = 0

    def put_off(self) -> None:
        """Breaks off what the resumed run can do again, if a signal has arrived."""
        if self.signal:
            raise PutOffError


class _Guard:
    """Turns the signals of one process into its end."""

    def __init__(self) -> None:
        self.received = 0  # the number of the signal that stops the process
        self.tolerated = 0  # so many signals somebody else handles
        self.account: Callable[[], str] = lambda: "nothing was written; run the same command again"
        self._finished, self._ending = threading.Event(), threading.Lock()

    @contextmanager
    def watch(self) -> Iterator["_Guard"]:
        """Handles signals, and lets a thread see them: Python's C part writes them to a pipe."""
        global _guard
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        threading.Thread(target=self._watch, args=(reader,), name="signals", daemon=True).start()
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        hook, sys.unraisablehook = sys.unraisablehook, self._report_unraisable
        _guard = self
        try:
            with _handling(_handlers(), self._stop):
                yield self
        finally:
            _guard = None
            self._finished.set()
            sys.unraisablehook = hook
            signal.set_wakeup_fd(wakeup)
            os.close(writer)

    def _stop(self, number: int, _frame: FrameType | None) -> NoReturn:
        """Handles a signal; at the second one somebody is in a hurry."""
        if self.received:
            self.end(number)
        self.received = number
        raise Stopped(number)

    def end(self, number: int, *, silently: bool = False) -> NoReturn:
        """Says the last words and ends the process, without the interpreter's own shutdown.

        The shutdown would run into threads that still read standard input.
        """
        if self._ending.acquire(blocking=False):
            words = threading.Thread(target=self._finish, args=(number, silently), daemon=True)
            words.start()
            words.join(_FAREWELL)
            os._exit(128 + number)
        while True:  # another thread is about to end the process
            self._finished.wait()

    def _watch(self, reader: int) -> None:
        while number := os.read(reader, 1):
            if self.tolerated:
                self.tolerated -= 1
            elif not self._finished.wait(_GRACE):
                self.end(number[0])
        os.close(reader)

    def _finish(self, number: int, silently: bool) -> None:
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        if silently:
            return
        with suppress(OSError):
            if os.isatty(2) and os.environ.get("TERM") != "dumb":
                os.write(2, _TIDY)
            try:
                account = self.account()
            except Exception as error:  # it looks at files that may be gone
                account = str(error)
            os.write(2, f"{last_line(number, account)}\n".encode(errors="replace"))

    def _report_unraisable(self, unraisable: Any) -> None:
        """Drops a Stopped that could not be raised, as in a finalizer: the watcher will act."""
        if not isinstance(unraisable.exc_value, Stopped):
            sys.__unraisablehook__(unraisable)


_guard: _Guard | None = None


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Ends the process with exit code 130 (SIGINT) or 143 (SIGTERM) if such a signal arrives.

    A signal that is ignored stays ignored: the shell starts jobs in the background so. The
    processes of a launcher such as torchrun are left to it.
    """
    with ExitStack() as stack:
        guard, is_launched = _guard, os.environ.get("WORLD_SIZE", "1") != "1"
        if guard is None and not is_launched and _handlers():
            guard = stack.enter_context(_Guard().watch())
        try:
            yield
        except SystemExit as end:
            if guard is not None and end.code in _CODES:  # the command has said its last words
                guard.end(int(end.code) - 128, silently=True)
            raise
        except BaseException:  # Stopped, or an error that a library made of it
            if guard is not None and guard.received:
                guard.end(guard.received)
            raise


@contextmanager
def stop_signals(
    interrupted: Interrupted | None = None,
    *,
    launched: bool = False,
) -> Iterator[Interrupted]:
    """Notes the first signal; a second one has the effect that it had before.

    A launcher such as torchrun passes on every signal, so that one sent to the whole group (Ctrl-C,
    a batch system) arrives twice at once. With `launched`, later signals are ignored, and the
    launcher kills processes that do not end. They stay ignored when an error leaves the block: the
    launcher sends SIGTERM as soon as any process has died, and the error says which one it was.
    """
    interrupted, before = interrupted or Interrupted(), _handlers()

    def note(number: int, _frame: FrameType | None) -> None:
        interrupted.signal = number
        for kind, handler in before.items():
            signal.signal(kind, signal.SIG_IGN if launched else handler)
        if not launched:
            logger.info("stopping after this update; a second Ctrl-C stops at once")

    tolerate_signals(1)
    with _handling(before, note):
        try:
            yield interrupted
        except BaseException:
            if launched:
                before.update(dict.fromkeys(before, signal.SIG_IGN))
            raise
        finally:
            if not interrupted.signal:
                tolerate_signals(0)


@contextmanager
def _handling(
    before: Mapping[signal.Signals, Any], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    for kind in before:
        signal.signal(kind, handler)
    try:
        yield
    finally:
        for kind, former in before.items():
            signal.signal(kind, former)


def _handlers() -> dict[signal.Signals, Any]:
    """Returns what handles the signals that are not ignored; the main thread alone may do so."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    return {kind: handler for kind, handler in found.items() if handler is not signal.SIG_IGN}


def say_if_stopped(account: str | Callable[[], str]) -> None:
    """Sets what the last line says if a signal stops this process: what is saved, how to go on."""
    if _guard is not None:
        _guard.account = account if callable(account) else lambda: account


def tolerate_signals(count: int) -> None:
    """Leaves so many signals to a handler that finishes its work first, as training does."""
    if _guard is not None:
        _guard.tolerated = count


def last_line(number: int, account: str) -> str:
    """Words the last line of a command that a signal has stopped."""
    return f"untold: interrupted by {signal.Signals(number).name}: {one_line(account)}"
