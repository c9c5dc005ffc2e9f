"""What all pictures share: places in inches, wrapped texts, fonts, and bytes that repeat."""

import io
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from untold.report.fonts import display_width, families_for

__all__ = ["Canvas", "render", "wrap_text"]

_DOTS = 160  # of a PNG, in an inch
_STYLE = {"font.size": 9.0, "svg.hashsalt": "untold"}
_METADATA = {"png": {"Software": None}, "svg": {"Date": None}}  # the same input, the same bytes


@dataclass(frozen=True)
class Canvas:
    """A figure whose places are given in inches from its upper left corner."""

    figure: Figure

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """A place to draw in."""
        w, h = self.figure.get_size_inches()
        return self.figure.add_axes((left / w, 1 - (top + height) / h, width / w, height / h))

    def text(self, left: float, top: float, text: str, size: float) -> None:
        """A line that is no formula, whatever it holds."""
        w, h = self.figure.get_size_inches()
        self.figure.text(
            left / w, 1 - top / h, text, fontsize=size, verticalalignment="top", parse_math=False
        )


def render(draw: Callable[[], Figure], texts: Iterable[str], kind: str) -> bytes:
    """A png or svg of what `draw` makes, with fonts for the texts in it as far as there are any."""
    families, missing = families_for(texts)
    if missing:
        print(
            f"untold: no font here has {missing[:20]}: boxes stand for them in the picture; "
            "install one, such as Noto Sans CJK",
            file=sys.stderr,
        )
    file = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context({**_STYLE, "font.family": families}):
        warnings.filterwarnings("ignore", message="Glyph ")  # said above, once
        draw().savefig(file, format=kind, dpi=_DOTS, metadata=_METADATA[kind])
    return file.getvalue()


def wrap_text(text: str, letters: int) -> tuple[str, ...]:
    """Lines of at most so many letters; between words, or anywhere in text without spaces."""
    wide = display_width(text) / max(1, len(text))
    return tuple(textwrap.wrap(text, max(1, int(letters / max(1.0, wide)))))
