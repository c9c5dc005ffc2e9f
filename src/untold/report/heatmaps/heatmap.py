"""Draws heat-maps of assignments, as in the paper: a panel for each target word and for the end.

A panel shows the shares before its word is produced. A source word that flips when this word is
produced has a dashed frame in this panel, where it is still future, and a solid frame in the next
panel, where it is past. One that has fallen back to future has a dotted frame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from untold.categories import CATEGORIES
from untold.introspection.share_explanation import ShareExplanation
from untold.report.canvas import (
    LETTER,
    LINE,
    MARGIN,
    Block,
    Canvas,
    wrap_text,
)
from untold.report.fonts import display_width
from untold.report.turned_words import any_falls_back, turned_words

__all__ = ["BAR", "drawn_texts", "panel_block", "panel_caption"]

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
