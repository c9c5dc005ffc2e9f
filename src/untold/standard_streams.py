"""Standard output and error: UTF-8 in every locale, and harmless where a terminal shows them.

What goes to a file or a pipe stays as it is, byte for byte.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from untold.errors import UntoldError, escape_controls, shorten

_LAYOUT = "\n\t"  # the control characters that printed text may have


class TerminalStream:
    """Writes text to a terminal, which obeys no control character of it but shows them."""

    def __init__(self, stream: Any) -> None:
        # Under this name rich finds the stream: its own sequences must pass (see terminal.py).
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Writes text; control characters, but for line ends and tabs, become visible."""
        self.rich_proxied_file.write(escape_controls(text, keep=_LAYOUT))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Makes standard output and error safe for any text within the block."""
    before = sys.stdout, sys.stderr
    # Names of files that are not UTF-8 leave as the bytes that they came as.
    sys.stdout = _make_safe(sys.stdout, "surrogateescape")
    sys.stderr = _make_safe(sys.stderr, "backslashreplace")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _make_safe(stream: Any, errors: str) -> Any:
    """Leaves alone a stream that was closed before Python started: it is None."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors=errors)
    if stream is not None and stream.isatty():
        return TerminalStream(stream)
    return stream


def open_closed_descriptors() -> None:
    """Fills gaps in the descriptors 0 to 2, lest a file take such a number and get messages.

    Python's own streams stay None, as they were at its start.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # it is closed, and so the lowest free number
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def decode_argument(argument: str) -> str:
    """Reads a text of the command line as UTF-8, whatever the locale made of its bytes."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        raise UntoldError(
            f"the argument {shorten(argument)} is not UTF-8: convert it first (iconv -t utf-8)"
        ) from None
