"""Draws short sentences as heat-maps, a panel for each target word, and long ones as an overview.

A panel shows the shares before its target word is produced, or before the end, as in the paper. A
source word that flips when this word is produced has a dashed frame in this panel, where it is
still future, and a solid frame in the next panel, where it is past. One that has fallen back to
future has a dotted frame.

An overview has a strip for each category, with a row for each source word and a column for each
step. A frame marks where past has overtaken future, a dashed one where the word has fallen back.

Measures are in inches.
"""

import io
import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from untold.explain.explanation import Explanation
from untold.explain.fonts import display_width, families_for
from untold.explain.table import any_falls_back, turned_words
from untold.models.signals import CATEGORIES, REDUNDANT

MARGIN, LINE, LETTER = 0.2, 0.22, 0.082  # around all, a line of text, a small letter
BAR = 0.75  # the room for the colour bar
MOST_PANELS = 15  # words on either side of a sentence that is drawn in panels
_DOTS = 160  # of a PNG, per inch
_STYLE = {"font.size": 9.0, "svg.hashsalt": "untold"}
# Matplotlib's own font of boxes would be used without a word; older versions have none.
_STYLE |= {key: False for key in ("font.enable_last_resort",) if key in matplotlib.rcParams}
_METADATA = {"png": {"Software": None}, "svg": {"Date": None}}  # the same input, the same bytes
_MOST_NAMED = 20  # characters in one message
_COLOURS, _FRAME = "Blues", "#d62728"
_NARROWEST = 5.0  # picture

# Of panels:
_ROW, _COLUMN = 0.24, 0.26
_GAP, _TITLES, _CATEGORIES = 0.12, 0.4, 0.85
_WIDEST = 12.0  # of panels side by side; more panels go on a new line
_LINES = {"before": (0, (2, 2)), "back": (0, (0.6, 1.2)), "after": "solid"}
_PANEL_CAPTION = (
    "Each panel: before its word is said. Frames: a source word turns from FUTURE (dashed) "
    "to PAST (full)."
)
_DOTTED = " Dotted: it has fallen back to FUTURE."

# Of the strips of an overview:
_CELL, _CELL_LETTER, _STRIP_GAP, _STRIP_TITLE = 0.11, 0.058, 0.15, 0.3
_POINTS = 6.0  # of their labels
_WIDEST_STRIPS = 18.0  # side by side; wider ones stand one below the other
_LONGEST_LABEL = 24  # letters of a word that are written beside its row or below its column
_OVERVIEW_CAPTION = (
    "Each column: before its word is said. Frames: a source word has turned from FUTURE to PAST; "
    "dashed: back to FUTURE."
)


def draw_shares(explanations: Sequence[Explanation], file_format: str, kind: str = "auto") -> bytes:
    """Draws a block for each explanation, as png or svg; `kind` is auto, panels or overview."""
    sides = [side for shown in explanations for side in (shown.source, shown.target)]
    texts = ["→", *(text for side in sides for text in (side.text, *side.words))]
    return render(lambda: share_figure(explanations, kind), texts, file_format)


def share_figure(explanations: Sequence[Explanation], kind: str = "auto") -> Figure:
    """Lays out the blocks, the captions below them and the colour bar."""
    is_long = [kind == "overview" or (kind == "auto" and _is_long(one)) for one in explanations]
    pairs = list(zip(explanations, is_long, strict=True))
    blocks = [(_Strips if long else _Panels).of(explanation).block() for explanation, long in pairs]
    short = [explanation for explanation, long in pairs if not long]
    captions = []
    if short:
        falls = any(any_falls_back(explanation.shares) for explanation in short)
        captions.append(_PANEL_CAPTION + (_DOTTED if falls else ""))
    if any(is_long):
        captions.append(_OVERVIEW_CAPTION)
    return stack_blocks(blocks, " ".join(captions), (blocks[0].width, BAR))


def _is_long(explanation: Explanation) -> bool:
    return max(len(explanation.source.words), len(explanation.target.words)) > MOST_PANELS


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


@dataclass(frozen=True)
class _Panels:
    """One explanation and the measures of its panels."""

    explanation: Explanation
    labels: float  # width of the longest source word
    panel: float
    across: int  # number of panels side by side
    lines: int
    rows: int

    @classmethod
    def of(cls, explanation: Explanation) -> "_Panels":
        longest = max(map(display_width, explanation.steps))
        panel = max(len(CATEGORIES) * _COLUMN, 1.1 * longest * LETTER)  # bold is wider
        panels, rows = len(explanation.shares), len(explanation.source.words)
        lines = math.ceil(panels / max(1, int(_WIDEST / (panel + _GAP))))
        labels = max(map(display_width, explanation.source.words)) * LETTER + _GAP
        return cls(explanation, labels, panel, math.ceil(panels / lines), lines, rows)

    @property
    def line(self) -> float:
        """The distance from one line of panels to the next."""
        return self.rows * _ROW + _CATEGORIES + _TITLES

    def block(self) -> Block:
        """Lays out the texts and the panels below them."""
        width = max(_NARROWEST, self.labels + self.across * (self.panel + _GAP))
        texts = wrap_text(self.explanation.source.text, int(width / (1.25 * LETTER)))
        texts += wrap_text(f"→ {self.explanation.target.text}", int(width / (1.25 * LETTER)))
        panels_top = len(texts) * LINE + _TITLES
        return Block(
            texts,
            width=MARGIN + width,
            height=panels_top + self.lines * self.line - _TITLES + MARGIN,
            panels_top=panels_top,
            panels_height=self.rows * _ROW,
            draw=lambda canvas, top: self._draw(canvas, top + panels_top),
        )

    def _draw(self, canvas: Canvas, top: float) -> list[AxesImage]:
        images = []
        for step, title in enumerate(self.explanation.steps):
            line, place = divmod(step, self.across)
            left = MARGIN + self.labels + place * (self.panel + _GAP)
            axes = canvas.axes(left, top + line * self.line, self.panel, self.rows * _ROW)
            images.append(_draw_panel(axes, self.explanation, step, labels=place == 0))
            axes.set_title(title, parse_math=False, fontsize=9, pad=4, fontweight="bold")
        return images


def _draw_panel(axes: Axes, explanation: Explanation, step: int, *, labels: bool) -> AxesImage:
    image = axes.imshow(
        explanation.shares[step],
        cmap=_COLOURS,
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_xticks(range(len(CATEGORIES)), [name.upper() for name in CATEGORIES], rotation=90)
    words = explanation.source.words
    axes.set_yticks(range(len(words)), words if labels else [""] * len(words), parse_math=False)
    axes.tick_params(length=0, labelsize=8)
    axes.tick_params(axis="x", labelsize=6.5)
    axes.spines[:].set_color("#b0b0b0")
    now, coming = (turned_words(explanation.shares, k) for k in (step, step + 1))
    for places, style in ((coming.told, "before"), (now.fallen, "back"), (now.told, "after")):
        for row in places:
            axes.add_patch(_frame(row, style))
    return image


def _frame(row: int, style: str) -> Rectangle:
    """Makes a frame around all columns of a source word."""
    return Rectangle(
        (-0.5, row - 0.5),
        len(CATEGORIES),
        1,
        fill=False,
        edgecolor=_FRAME,
        linewidth=1.6,
        linestyle=_LINES[style],
        clip_on=False,
        zorder=3 if style == "after" else 2,
    )


@dataclass(frozen=True)
class _Strips:
    """One explanation and the measures of its strips."""

    explanation: Explanation
    labels: float  # room for the source words, beside the rows
    words: float  # room for the target words, below the columns
    is_stacked: bool

    @classmethod
    def of(cls, explanation: Explanation) -> "_Strips":
        labels, words = (
            max(map(display_width, map(_label, texts))) * _CELL_LETTER + _STRIP_GAP
            for texts in (explanation.source.words, explanation.steps)
        )
        strip = len(explanation.shares) * _CELL
        is_stacked = labels + len(CATEGORIES) * (strip + _STRIP_GAP) > _WIDEST_STRIPS
        return cls(explanation, labels, words, is_stacked)

    @property
    def width(self) -> float:
        """The width of one strip."""
        return len(self.explanation.shares) * _CELL

    @property
    def height(self) -> float:
        """The height of one strip."""
        return len(self.explanation.source.words) * _CELL

    @property
    def line(self) -> float:
        """The distance from one strip to the one below it."""
        return _STRIP_TITLE + self.height + self.words

    def block(self) -> Block:
        """Lays out the texts and the strips below them."""
        across, lines = (1, len(CATEGORIES)) if self.is_stacked else (len(CATEGORIES), 1)
        width = max(_NARROWEST, self.labels + across * (self.width + _STRIP_GAP))
        texts = wrap_text(self.explanation.source.text, int(width / 0.1))
        texts += wrap_text(f"→ {self.explanation.target.text}", int(width / 0.1))
        top = len(texts) * LINE + _STRIP_TITLE
        return Block(
            texts,
            width=MARGIN + width,
            height=top - _STRIP_TITLE + lines * self.line + MARGIN,
            panels_top=top,
            panels_height=self.height,
            draw=lambda canvas, start: self._draw(canvas, start + top),
        )

    def _draw(self, canvas: Canvas, top: float) -> list[AxesImage]:
        images = []
        for category, name in enumerate(CATEGORIES):
            across, down = (0, category) if self.is_stacked else (category, 0)
            left = MARGIN + self.labels + across * (self.width + _STRIP_GAP)
            axes = canvas.axes(left, top + down * self.line, self.width, self.height)
            axes.set_title(name.upper(), fontsize=8, pad=3, fontweight="bold")
            images.append(_draw_strip(axes, self.explanation, category, labels=across == 0))
        return images


def _draw_strip(axes: Axes, explanation: Explanation, category: int, *, labels: bool) -> AxesImage:
    """Draws one category, and frames where words have turned."""
    image = axes.imshow(
        explanation.shares[:, :, category].T,
        cmap=_COLOURS,
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
    )
    steps, words = _labels(explanation.steps), _labels(explanation.source.words)
    axes.set_xticks(range(len(steps)), steps, rotation=90, parse_math=False)
    axes.set_yticks(range(len(words)), words if labels else [""] * len(words), parse_math=False)
    axes.tick_params(length=0, labelsize=_POINTS, pad=2)
    axes.spines[:].set_color("#b0b0b0")
    for step in range(len(steps)) if category != REDUNDANT else ():
        turned = turned_words(explanation.shares, step)
        for word in turned.told | turned.fallen:
            axes.add_patch(_cell_frame(step, word, back=word in turned.fallen))
    return image


def _cell_frame(step: int, word: int, *, back: bool) -> Rectangle:
    """Makes a frame around one cell."""
    return Rectangle(
        (step - 0.5, word - 0.5),
        1,
        1,
        fill=False,
        edgecolor=_FRAME,
        linewidth=0.9,
        linestyle=(0, (1.5, 1)) if back else "solid",
    )


def _labels(words: Sequence[str]) -> list[str]:
    return [_label(word) for word in words]


def _label(word: str) -> str:
    return word if len(word) <= _LONGEST_LABEL else f"{word[: _LONGEST_LABEL - 1]}…"
