"""SIGTERM and SIGINT: the first one asks a run to stop after a whole update, a second one kills."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from untold.stopping import tolerate_signals

__all__ = ["Interrupted", "PutOffError", "stop_signals"]


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
