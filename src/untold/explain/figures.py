"""Draws heat-maps of assignments, as in the paper: a panel for each target word and for the end.

A panel shows the shares before its word is produced. A source word that flips when this word is
produced has a dashed frame in this panel, where it is still future, and a solid frame in the next
panel, where it is past. One that has fallen back to future has a dotted frame.

The parts that all pictures share: inches, stacked blocks, wrapped texts, fonts, stable bytes.

Draws an overview of a long sentence: a strip for each category, source words by steps.

A strip has a row for each source word and a column for each step: the state before a target word
and, last, before the end. A frame marks where past has overtaken future, a dashed one where the
word has fallen back.

Draws explanations by shares as figures: short sentences in panels, long ones as an overview.

Draws the states of a PFRNN: cosines of each layer's states after all pairs of pieces.

A panel has a row and a column for each target piece and the end; a cell is the cosine of the two
states. A layer that registers every piece is dark on the diagonal alone. A dark block around the
diagonal means that the pieces in it changed the state little.
"""

import io
import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from untold.explain.explanation import PfrnnExplanation, ShareExplanation
from untold.explain.fonts import display_width, families_for
from untold.explain.table import any_falls_back, turned_words
from untold.models.signals import CATEGORIES, REDUNDANT

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


_COLOURS, _FRAME = "Blues", "#d62728"
_COPIED = "❐"
_LINES = {"before": (0, (2, 2)), "back": (0, (0.6, 1.2)), "after": "solid"}
# Inches:
_ROW, _COLUMN = 0.24, 0.26
_GAP, _TITLES, _CATEGORIES = 0.12, 0.4, 0.85
BAR = 0.75  # the room for the colour bar
_NARROWEST, _WIDEST = 5.0, 12.0  # of panels side by side; more panels go on a new line
_CAPTION = (
    "Each panel: before its word is said. Frames: a source word turns from FUTURE (dashed) "
    "to PAST (full)."
)
_DOTTED = " Dotted: it has fallen back to FUTURE."


def panel_block(explanation: ShareExplanation) -> Block:
    """Lays out the texts of an explanation, and axes for each panel in the target's order."""
    return _Panels.of(explanation).block()


def panel_caption(explanations: Sequence[ShareExplanation]) -> str:
    """Says how to read the panels of these explanations."""
    copies = any(explanation.copies for explanation in explanations)
    falls = any(any_falls_back(explanation.shares) for explanation in explanations)
    return _CAPTION + (_DOTTED if falls else "") + (f" {_COPIED}: copied." if copies else "")


@dataclass(frozen=True)
class _Panels:
    """One explanation and the measures of its panels."""

    explanation: ShareExplanation
    labels: float  # width of the longest source word
    panel: float
    across: int  # number of panels side by side
    lines: int
    rows: int

    @classmethod
    def of(cls, explanation: ShareExplanation) -> "_Panels":
        longest = max(map(display_width, _titles(explanation)))
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
        for step, title in enumerate(_titles(self.explanation)):
            line, place = divmod(step, self.across)
            left = MARGIN + self.labels + place * (self.panel + _GAP)
            axes = canvas.axes(left, top + line * self.line, self.panel, self.rows * _ROW)
            images.append(_draw_panel(axes, self.explanation, step, labels=place == 0))
            axes.set_title(title, parse_math=False, fontsize=9, pad=4, fontweight="bold")
        return images


def _titles(explanation: ShareExplanation) -> list[str]:
    """Returns the word that each panel precedes, with a mark if it is copied."""
    copied = {copy.target for copy in explanation.copies}
    return [
        f"{word} {_COPIED}" if step in copied else word
        for step, word in enumerate(explanation.steps)
    ]


def _draw_panel(axes: Axes, explanation: ShareExplanation, step: int, *, labels: bool) -> AxesImage:
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


def drawn_texts(explanations: Sequence[ShareExplanation]) -> list[str]:
    """Lists all texts of a picture, for which fonts are needed."""
    sides = [side for each in explanations for side in (each.source, each.target)]
    return ["→", *(text for side in sides for text in (side.text, *side.words))]


OVERVIEW_CAPTION = (
    "Each column: before its word is said. Frames: a source word has turned from FUTURE to PAST; "
    "dashed: back to FUTURE."
)
_overview_figure_COLOURS, _overview_figure_FRAME = "Blues", "#d62728"
# Inches, but for points:
_CELL, _LETTER, _overview_figure_GAP, _TITLE = 0.11, 0.058, 0.15, 0.3
_POINTS = 6.0
_overview_figure_WIDEST = 18.0  # of strips side by side; wider ones stand one below the other
_overview_figure_NARROWEST = 5.0
_LONGEST_LABEL = 24  # letters of a word that are written beside its row or below its column


def overview_block(explanation: ShareExplanation) -> Block:
    """Lays out the texts and the strips below them."""
    return _Strips.of(explanation).block()


@dataclass(frozen=True)
class _Strips:
    """One explanation and the measures of its strips."""

    explanation: ShareExplanation
    labels: float  # room for the source words, beside the rows
    words: float  # room for the target words, below the columns
    is_stacked: bool

    @classmethod
    def of(cls, explanation: ShareExplanation) -> "_Strips":
        labels, words = (
            max(map(display_width, map(_label, texts))) * _LETTER + _overview_figure_GAP
            for texts in (explanation.source.words, explanation.steps)
        )
        strip = len(explanation.shares) * _CELL
        is_stacked = (
            labels + len(CATEGORIES) * (strip + _overview_figure_GAP) > _overview_figure_WIDEST
        )
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
        return _TITLE + self.height + self.words

    def block(self) -> Block:
        """Lays out the texts and the strips below them."""
        across, lines = (1, len(CATEGORIES)) if self.is_stacked else (len(CATEGORIES), 1)
        width = max(
            _overview_figure_NARROWEST, self.labels + across * (self.width + _overview_figure_GAP)
        )
        texts = wrap_text(self.explanation.source.text, int(width / 0.1))
        texts += wrap_text(f"→ {self.explanation.target.text}", int(width / 0.1))
        top = len(texts) * LINE + _TITLE
        return Block(
            texts,
            width=MARGIN + width,
            height=top - _TITLE + lines * self.line + MARGIN,
            panels_top=top,
            panels_height=self.height,
            draw=lambda canvas, start: self._draw(canvas, start + top),
        )

    def _draw(self, canvas: Canvas, top: float) -> list[AxesImage]:
        images = []
        for category, name in enumerate(CATEGORIES):
            across, down = (0, category) if self.is_stacked else (category, 0)
            left = MARGIN + self.labels + across * (self.width + _overview_figure_GAP)
            axes = canvas.axes(left, top + down * self.line, self.width, self.height)
            axes.set_title(name.upper(), fontsize=8, pad=3, fontweight="bold")
            images.append(_draw_strip(axes, self.explanation, category, labels=across == 0))
        return images


def _draw_strip(
    axes: Axes, explanation: ShareExplanation, category: int, *, labels: bool
) -> AxesImage:
    """Draws one category, and frames where words have turned."""
    image = axes.imshow(
        explanation.shares[:, :, category].T,
        cmap=_overview_figure_COLOURS,
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
            axes.add_patch(_overview_figure_frame(step, word, back=word in turned.fallen))
    return image


def _overview_figure_frame(step: int, word: int, *, back: bool) -> Rectangle:
    """Makes a frame around one cell."""
    return Rectangle(
        (step - 0.5, word - 0.5),
        1,
        1,
        fill=False,
        edgecolor=_overview_figure_FRAME,
        linewidth=0.9,
        linestyle=(0, (1.5, 1)) if back else "solid",
    )


def _labels(words: Sequence[str]) -> list[str]:
    return [_label(word) for word in words]


def _label(word: str) -> str:
    return word if len(word) <= _LONGEST_LABEL else f"{word[: _LONGEST_LABEL - 1]}…"


MOST_PANELS = 15  # words on either side of a sentence that is drawn in panels


def share_figure(explanations: Sequence[ShareExplanation], kind: str = "auto") -> Figure:
    """Draws a block for each explanation; `kind` is auto, panels or overview."""
    long = [kind == "overview" or (kind == "auto" and _is_long(each)) for each in explanations]
    blocks = [
        overview_block(each) if is_long else panel_block(each)
        for each, is_long in zip(explanations, long, strict=True)
    ]
    short = [each for each, is_long in zip(explanations, long, strict=True) if not is_long]
    captions = [panel_caption(short)] if short else []
    captions += [OVERVIEW_CAPTION] if any(long) else []
    return stack_blocks(blocks, " ".join(captions), (blocks[0].width, BAR))


def _is_long(explanation: ShareExplanation) -> bool:
    return max(len(explanation.source.words), len(explanation.target.words)) > MOST_PANELS


def _bytes(kind: str, suffix: str, explanations: Sequence[ShareExplanation]) -> bytes:
    return render(lambda: share_figure(explanations, kind), drawn_texts(explanations), suffix)


Draw = Callable[[Sequence[ShareExplanation]], bytes]

share_png: Draw = partial(_bytes, "auto", "png")
share_svg: Draw = partial(_bytes, "auto", "svg")
panels_png: Draw = partial(_bytes, "panels", "png")
panels_svg: Draw = partial(_bytes, "panels", "svg")
overview_png: Draw = partial(_bytes, "overview", "png")
overview_svg: Draw = partial(_bytes, "overview", "svg")


_pfrnn_figure_COLOURS = "RdBu"
_pfrnn_figure_CAPTION = (
    "Cosines of a layer's states after each target piece. Blue: alike. Red: opposed."
)
# Inches:
_pfrnn_figure_CELL, _SMALLEST, _PANEL = 0.24, 0.1, 6.0
_pfrnn_figure_GAP, _pfrnn_figure_TITLE, _BAR, _pfrnn_figure_NARROWEST = 0.15, 0.3, 0.85, 5.0


def pfrnn_png(explanations: Sequence[PfrnnExplanation]) -> bytes:
    """Draws a PNG with a block for each explanation, one below the other."""
    return render(lambda: pfrnn_figure(explanations), _texts(explanations), "png")


def pfrnn_svg(explanations: Sequence[PfrnnExplanation]) -> bytes:
    """Draws an SVG with a block for each explanation, one below the other."""
    return render(lambda: pfrnn_figure(explanations), _texts(explanations), "svg")


def pfrnn_figure(explanations: Sequence[PfrnnExplanation]) -> Figure:
    """Makes for each explanation axes of the past, then of the future; last the colour bar."""
    blocks = [_PairOfPanels.of(explanation).block() for explanation in explanations]
    return stack_blocks(blocks, _pfrnn_figure_CAPTION, (max(block.width for block in blocks), _BAR))


@dataclass(frozen=True)
class _PairOfPanels:
    """One explanation and the measures of its panels."""

    explanation: PfrnnExplanation
    labels: float  # width of the longest piece
    cell: float
    panel: float

    @classmethod
    def of(cls, explanation: PfrnnExplanation) -> "_PairOfPanels":
        pieces = explanation.pfrnn.pieces
        cell = min(_pfrnn_figure_CELL, max(_SMALLEST, _PANEL / len(pieces)))
        labels = max(map(display_width, pieces)) * LETTER + _pfrnn_figure_GAP
        return cls(explanation, labels, cell, cell * len(pieces))

    def block(self) -> Block:
        """Lays out the texts and the panels below them."""
        letters = int(max(_pfrnn_figure_NARROWEST, self.labels + 2 * self.panel) / (1.25 * LETTER))
        texts = wrap_text(self.explanation.source.text, letters)
        texts += wrap_text(f"→ {self.explanation.target.text}", letters)
        panels_top = len(texts) * LINE + _pfrnn_figure_TITLE
        return Block(
            texts,
            width=MARGIN
            + max(_pfrnn_figure_NARROWEST, self.labels + 2 * (self.panel + _pfrnn_figure_GAP)),
            height=panels_top + self.panel + self.labels + MARGIN,
            panels_top=panels_top,
            panels_height=self.panel,
            draw=lambda canvas, top: self._draw(canvas, top + panels_top),
        )

    def _draw(self, canvas: Canvas, top: float) -> list[AxesImage]:
        states, images = self.explanation.pfrnn, []
        for place, (name, cosines) in enumerate(states.cosines().items()):
            left = MARGIN + self.labels + place * (self.panel + _pfrnn_figure_GAP)
            axes = canvas.axes(left, top, self.panel, self.panel)
            images.append(
                axes.imshow(
                    cosines,
                    cmap=_pfrnn_figure_COLOURS,
                    vmin=-1.0,
                    vmax=1.0,
                    interpolation="nearest",
                )
            )
            axes.set_title(name.upper(), fontsize=9, pad=4, fontweight="bold")
            _pfrnn_figure_label(
                axes, states.pieces, 8 * self.cell / _pfrnn_figure_CELL, rows=place == 0
            )
        return images


def _pfrnn_figure_label(axes: Axes, pieces: Sequence[str], size: float, *, rows: bool) -> None:
    places = range(len(pieces))
    axes.set_xticks(places, pieces, rotation=90, parse_math=False)
    axes.set_yticks(places, pieces if rows else [""] * len(pieces), parse_math=False)
    axes.tick_params(length=0, labelsize=size)
    axes.spines[:].set_color("#b0b0b0")


def _texts(explanations: Sequence[PfrnnExplanation]) -> list[str]:
    texts = [text for each in explanations for text in (each.source.text, each.target.text)]
    return ["→", *texts, *(piece for each in explanations for piece in each.pfrnn.pieces)]
