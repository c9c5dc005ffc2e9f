"""Consoles for tables, bars and messages; all of untold's come from here.

A terminal obeys what rich sends to it: styles and movements of the cursor. Control characters of
the text that is shown reach it in a visible form. Files and pipes get the text as it is.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from untold.errors import escape_controls


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
