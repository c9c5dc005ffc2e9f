"""Draws an overview of a long sentence: a strip for each category, source words by steps.

A strip has a row for each source word and a column for each step: the state before a target word
and, last, before the end. A frame marks where past has overtaken future, a dashed one where the
word has fallen back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from untold.categories import CATEGORIES, REDUNDANT
from untold.introspection.share_explanation import ShareExplanation
from untold.report.canvas import LINE, MARGIN, Block, Canvas, wrap_text
from untold.report.fonts import display_width
from untold.report.turned_words import turned_words

__all__ = ["OVERVIEW_CAPTION", "overview_block"]

OVERVIEW_CAPTION = (
    "Each column: before its word is said. Frames: a source word has turned from FUTURE to PAST; "
    "dashed: back to FUTURE."
)
_COLOURS, _FRAME = "Blues", "#d62728"
# Inches, but for points:
_CELL, _LETTER, _GAP, _TITLE = 0.11, 0.058, 0.15, 0.3
_POINTS = 6.0
_WIDEST = 18.0  # of strips side by side; wider ones stand one below the other
_NARROWEST = 5.0
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
            max(map(display_width, map(_label, texts))) * _LETTER + _GAP
            for texts in (explanation.source.words, explanation.steps)
        )
        strip = len(explanation.shares) * _CELL
        is_stacked = labels + len(CATEGORIES) * (strip + _GAP) > _WIDEST
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
        width = max(_NARROWEST, self.labels + across * (self.width + _GAP))
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
            left = MARGIN + self.labels + across * (self.width + _GAP)
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
            axes.add_patch(_frame(step, word, back=word in turned.fallen))
    return image


def _frame(step: int, word: int, *, back: bool) -> Rectangle:
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
