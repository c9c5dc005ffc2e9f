"""The parts that all pictures share: inches, stacked blocks, wrapped texts, fonts, stable bytes."""

import io
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from untold.report.fonts import display_width, families_for

__all__ = ["LETTER", "LINE", "MARGIN", "Block", "Canvas", "render", "stack_blocks", "wrap_text"]

MARGIN, LINE, LETTER = 0.2, 0.22, 0.082  # inches: around all, a line of text, a small letter
_DOTS = 160  # of a PNG, per inch
_STYLE = {"font.size": 9.0, "svg.hashsalt": "untold"}
# Matplotlib's own font of boxes would be used without a word; older versions have none.
_STYLE |= {key: False for key in ("font.enable_last_resort",) if key in matplotlib.rcParams}
_MOST_NAMED = 20  # characters in one message
_METADATA = {"png": {"Software": None}, "svg": {"Date": None}}  # the same input, the same bytes


@dataclass(frozen=True)
class Canvas:
    """A figure with positions in inches from its upper left corner."""

    figure: Figure

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Adds axes to draw in."""
        w, h = self.figure.get_size_inches()
        return self.figure.add_axes((left / w, 1 - (top + height) / h, width / w, height / h))

    def text(self, left: float, top: float, text: str, size: float) -> None:
        """Adds a line of plain text, which is never parsed as a formula."""
        w, h = self.figure.get_size_inches()
        self.figure.text(
            left / w, 1 - top / h, text, fontsize=size, verticalalignment="top", parse_math=False
        )


@dataclass(frozen=True)
class Block:
    """One sentence of a picture: its texts and below them its panels. Measures are in inches."""

    texts: tuple[str, ...]
    width: float
    height: float
    panels_top: float  # from the top of the block to its panels
    panels_height: float  # of the first line of panels
    draw: Callable[[Canvas, float], list[AxesImage]]  # draws the panels; takes the block's top


def stack_blocks(blocks: Sequence[Block], caption: str, bar: tuple[float, float]) -> Figure:
    """Draws blocks one below the other, a caption, and a colour bar beside the first block.

    `bar` is the left edge of the colour bar and the room that is added for it.
    """
    width = max(block.width for block in blocks) + bar[1]
    height = sum(block.height for block in blocks) + 2 * MARGIN
    canvas = Canvas(Figure(figsize=(width, height)))
    canvas.text(MARGIN, height - 1.5 * MARGIN, caption, size=7.0)
    top, images = MARGIN, []
    for block in blocks:
        for line, text in enumerate(block.texts):
            canvas.text(MARGIN, top + line * LINE, text, size=11.0)
        images += block.draw(canvas, top)
        top += block.height
    place = (bar[0], MARGIN + blocks[0].panels_top, 0.12, blocks[0].panels_height)
    canvas.figure.colorbar(images[0], cax=canvas.axes(*place)).outline.set_visible(False)
    return canvas.figure


def render(draw: Callable[[], Figure], texts: Iterable[str], kind: str) -> bytes:
    """Draws a figure as png or svg, with fonts for these texts as far as they are installed."""
    families, missing = families_for(texts)
    if missing:
        print(
            f"untold: no font here has {_name(missing)}: boxes stand for them in the picture; "
            "install one, such as Noto Sans CJK",
            file=sys.stderr,
        )
    file = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context({**_STYLE, "font.family": families}):
        warnings.filterwarnings("ignore", message="Glyph ")  # the message above says it once
        draw().savefig(file, format=kind, dpi=_DOTS, metadata=_METADATA[kind])
    return file.getvalue()


def _name(characters: str) -> str:
    """Lists characters, those that nobody can see by their numbers."""
    names = [c if c.isprintable() else f"U+{ord(c):04X}" for c in characters[:_MOST_NAMED]]
    more = len(characters) - len(names)
    return " ".join(names) + (f" and {more} more characters" if more else "")


def wrap_text(text: str, letters: int) -> tuple[str, ...]:
    """Wraps text at the given width, between words or, without spaces, anywhere."""
    wide = display_width(text) / max(1, len(text))
    return tuple(textwrap.wrap(text, max(1, int(letters / max(1.0, wide)))))
