"""SIGINT and SIGTERM: every command stops within a second, and its last line says what is saved.

The first signal raises `Stopped` in the main thread, so that `with` blocks tidy up on the way out.
Where the main thread does not come out in time, as inside a long call of a C library, a watcher
thread ends the process. Files stay whole or absent in either case: see durable.py.

SIGTERM and SIGINT: the first one asks a run to stop after a whole update, a second one kills.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

from untold.errors import one_line

_GRACE = 0.5  # seconds that the main thread has to tidy up
_FAREWELL = 0.2  # seconds that the last words may take, for a reader may be stuck
_CODES = (128 + signal.SIGINT, 128 + signal.SIGTERM)
_TIDY = b"\x1b[?25h\r\x1b[K"  # shows the cursor, which bars hide, and clears their line


class Stopped(BaseException):
    """Unwinds the main thread after a signal; no `except Exception` catches it."""


class _Guard:
    """Turns the signals of one process into its end."""

    def __init__(self) -> None:
        self.received = 0  # the number of the signal that stops the process
        self.tolerated = 0  # so many signals somebody else handles
        self.account: Callable[[], str] = lambda: "nothing was written; run the same command again"
        self._finished = threading.Event()
        self._ending = threading.Lock()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    @contextlib.contextmanager
    def watch(self, kinds: list[signal.Signals]) -> Iterator[None]:
        """Handles these signals, and puts everything back at the end."""
        threading.Thread(target=self._watch, name="signals", daemon=True).start()
        wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        before = {kind: signal.signal(kind, self._stop) for kind in kinds}
        hook, sys.unraisablehook = sys.unraisablehook, self._keep_quiet
        try:
            yield
        finally:
            self._finished.set()
            sys.unraisablehook = hook
            for kind, handler in before.items():
                signal.signal(kind, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(self._write)

    def _stop(self, number: int, _frame: FrameType | None) -> NoReturn:
        if self.received:  # the second one: somebody is in a hurry
            self.end(number)
        self.received = number
        raise Stopped(number)

    def _watch(self) -> None:
        """Waits in the kernel: the C part of Python's handler writes each signal to the pipe."""
        while number := os.read(self._read, 1):
            if self.tolerated:
                self.tolerated -= 1
            elif not self._finished.wait(_GRACE):
                self.end(number[0])
        os.close(self._read)

    def end(self, number: int) -> NoReturn:
        """Says the last words and ends the process, without the interpreter's own shutdown.

        The shutdown would run into threads that still read standard input.
        """
        if self._ending.acquire(blocking=False):
            self.leave(128 + number, lambda: self._say_last_words(number))
        while True:  # another thread is about to end the process
            self._finished.wait()

    def leave(self, code: int, say: Callable[[], None] = lambda: None) -> NoReturn:
        """Ends the process after its last words, unless their reader is stuck."""

        def finish() -> None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stdout.flush()
            say()

        words = threading.Thread(target=finish, daemon=True)
        words.start()
        words.join(_FAREWELL)
        os._exit(code)

    def _say_last_words(self, number: int) -> None:
        with contextlib.suppress(OSError):
            if os.isatty(2) and os.environ.get("TERM") != "dumb":
                os.write(2, _TIDY)
            try:
                account = self.account()
            except Exception as error:  # it looks at files that may be gone
                account = str(error)
            os.write(2, f"{last_line(number, account)}\n".encode(errors="replace"))

    def _keep_quiet(self, unraisable: Any) -> None:
        """Drops a Stopped that could not be raised, as in a finalizer: the watcher will act."""
        if not isinstance(unraisable.exc_value, Stopped):
            sys.__unraisablehook__(unraisable)


_guard: _Guard | None = None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Ends the process with exit code 130 (SIGINT) or 143 (SIGTERM) if such a signal arrives.

    A signal that is ignored stays ignored: the shell starts jobs in the background so. The
    processes of a launcher such as torchrun are left to it.
    """
    with _watched() as guard:
        try:
            yield
        except SystemExit as end:
            if guard is not None and end.code in _CODES:  # the command has said its last words
                guard.leave(int(end.code))
            raise
        except BaseException:  # Stopped, or an error that a library made of it
            if guard is not None and guard.received:
                guard.end(guard.received)
            raise


@contextlib.contextmanager
def _watched() -> Iterator[_Guard | None]:
    """Yields the guard of this process, and makes one if there is none and signals matter."""
    global _guard
    kinds = [] if _is_launched() else _signals_to_handle()
    if _guard is not None or not kinds:
        yield _guard
        return
    _guard = _Guard()
    try:
        with _guard.watch(kinds):
            yield _guard
    finally:
        _guard = None


def say_if_stopped(account: str | Callable[[], str]) -> None:
    """Sets what the last line says if a signal stops this process: what is saved, how to go on."""
    if _guard is not None:
        _guard.account = account if callable(account) else lambda: account


def last_line(number: int, account: str) -> str:
    """Words the last line of a command that a signal has stopped."""
    return f"untold: interrupted by {signal.Signals(number).name}: {one_line(account)}"


def tolerate_signals(count: int) -> None:
    """Leaves so many signals to a handler that finishes its work first, as training does."""
    if _guard is not None:
        _guard.tolerated = count


def _is_launched() -> bool:
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _signals_to_handle() -> list[signal.Signals]:
    """Returns those that are not ignored; only the main thread may handle any."""
    if threading.current_thread() is not threading.main_thread():
        return []
    kinds = (signal.SIGINT, signal.SIGTERM)
    return [kind for kind in kinds if signal.getsignal(kind) is not signal.SIG_IGN]


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


def _say_nothing(_: str) -> None:
    """Prints nothing."""


@contextmanager
def stop_signals(
    interrupted: Interrupted | None = None,
    say: Callable[[str], None] = _say_nothing,
    *,
    launched: bool = False,
) -> Iterator[Interrupted]:
    """Notes the first signal; a second one has the effect that it had before.

    A launcher such as torchrun passes on every signal, so that one sent to the whole group (Ctrl-C,
    a batch system) arrives twice at once. With `launched`, later signals are ignored, and the
    launcher kills processes that do not end. They stay ignored when an error leaves the block: the
    launcher sends SIGTERM as soon as any process has died, and the error says which one it was.
    """
    interrupted = interrupted or Interrupted()
    before = {kind: signal.getsignal(kind) or signal.SIG_DFL for kind in _kinds()}

    def note(number: int, _frame: FrameType | None) -> None:
        interrupted.signal = number
        for kind, handler in before.items():
            signal.signal(kind, signal.SIG_IGN if launched else handler)
        if not launched:
            say("stopping after this update; a second Ctrl-C stops at once")

    tolerate_signals(1)
    for kind in before:
        signal.signal(kind, note)
    failed = True
    try:
        yield interrupted
        failed = False
    finally:
        for kind, handler in before.items():
            signal.signal(kind, signal.SIG_IGN if launched and failed else handler)
        if not interrupted.signal:
            tolerate_signals(0)


def _kinds() -> list[signal.Signals]:
    """Returns the signals to note, none of them ignored; only the main thread may handle any."""
    if threading.current_thread() is not threading.main_thread():
        return []
    kinds = (signal.SIGTERM, signal.SIGINT)
    return [kind for kind in kinds if signal.getsignal(kind) is not signal.SIG_IGN]
