"""Consoles for tables, bars and messages; all of untold's come from here.

A terminal obeys what rich sends to it: styles and movements of the cursor. Control characters of
the text that is shown reach it in a visible form. Files and pipes get the text as it is.

Standard output and error: UTF-8 in every locale, and harmless where a terminal shows them.

What goes to a file or a pipe stays as it is, byte for byte.
"""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from untold.errors import UntoldError, escape_controls, shorten


class SafeConsole(Console):
    """Shows control characters of text on a terminal instead of obeying them."""

    def render_str(self, text: str, **settings: Any) -> Text:
        """Makes them visible before anything is measured; rich would drop some of them."""
        return super().render_str(self._visible(text), **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Makes them visible in whatever else is rendered; what rich itself adds passes."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(self._visible(segment.text), segment.style)

    def _visible(self, text: str) -> str:
        return escape_controls(text, keep="\n\t") if self.is_terminal else text


def console(*, stderr: bool = False) -> Console:
    """Makes a console of standard output or error, which takes no text for numbers or emojis."""
    return SafeConsole(stderr=stderr, highlight=False, emoji=False)


def print_table(console: Console, heading: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows of figures behind a name; only a terminal limits the width."""
    if not console.is_terminal:
        console.width = 10_000
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(heading):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


_LAYOUT = "\n\t"  # the control characters that printed text may have


class TerminalStream:
    """Writes text to a terminal, which obeys no control character of it but shows them."""

    def __init__(self, stream: Any) -> None:
        # Under this name rich finds the stream: its own sequences must pass (see safe_console.py).
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
