"""Heat-maps of assignments, as in the paper: a panel for each target word, and one for the end.

A panel shows the shares before its word is said. A source word that flips when that word is said
has a dashed frame there, where it is still future, and a full one in the next panel, where it is
past.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from untold.introspection.explanation import CATEGORIES, Explanation
from untold.report.canvas import Canvas, render, wrap_text
from untold.report.fonts import display_width

__all__ = ["draw_heatmaps", "heatmap_figure"]

_COLOURS, _FRAME = "Blues", "#d62728"
_COPIED = "❐"
# Inches:
_ROW, _COLUMN, _LETTER = 0.24, 0.26, 0.082
_MARGIN, _GAP, _TEXT, _TITLES, _CATEGORIES, _BAR = 0.2, 0.12, 0.22, 0.4, 0.85, 0.75
_NARROWEST, _WIDEST = 5.0, 12.0  # of panels side by side; beyond, they go on below
_CAPTION = (
    "Each panel: before its word is said. Frames: a source word turns from FUTURE (dashed) "
    "to PAST (full)."
)


def draw_heatmaps(explanations: Sequence[Explanation], kind: str) -> bytes:
    """A picture (png or svg) with a block for each explanation, one below the other."""
    return render(lambda: heatmap_figure(explanations), _texts(explanations), kind)


def heatmap_figure(explanations: Sequence[Explanation]) -> Figure:
    """An axes for each panel in the order of the target words, and last one for the colour bar."""
    blocks = [_Block.of(explanation) for explanation in explanations]
    width = max(block.width for block in blocks) + _BAR
    height = sum(block.height for block in blocks) + 2 * _MARGIN
    canvas = Canvas(Figure(figsize=(width, height)))
    copies = any(explanation.copies for explanation in explanations)
    caption = f"{_CAPTION} {_COPIED}: copied." if copies else _CAPTION
    canvas.text(_MARGIN, height - 1.5 * _MARGIN, caption, size=7.0)
    top, images = _MARGIN, []
    for explanation, block in zip(explanations, blocks, strict=True):
        images += _draw_block(canvas, explanation, block, top)
        top += block.height
    first = blocks[0]
    place = (first.width, _MARGIN + first.panels_top, 0.12, first.rows * _ROW)
    bar = canvas.figure.colorbar(images[0], cax=canvas.axes(*place))
    bar.outline.set_visible(False)
    return canvas.figure


@dataclass(frozen=True)
class _Block:
    """The measures of one sentence."""

    texts: tuple[str, ...]  # both texts, line by line
    labels: float  # width of the longest source word
    panel: float
    across: int  # panels side by side
    lines: int
    rows: int

    @classmethod
    def of(cls, explanation: Explanation) -> "_Block":
        longest = max(map(display_width, _titles(explanation)))
        panel = max(len(CATEGORIES) * _COLUMN, 1.1 * longest * _LETTER)  # bold is wider
        panels, rows = len(explanation.shares), len(explanation.source.words)
        lines = math.ceil(panels / max(1, int(_WIDEST / (panel + _GAP))))
        across = math.ceil(panels / lines)
        labels = max(map(display_width, explanation.source.words)) * _LETTER + _GAP
        letters = int(max(_NARROWEST, labels + across * (panel + _GAP)) / (1.25 * _LETTER))
        texts = wrap_text(explanation.source.text, letters)
        texts += wrap_text(f"→ {explanation.target.text}", letters)
        return cls(texts, labels, panel, across, lines, rows)

    @property
    def width(self) -> float:
        panels = self.labels + self.across * (self.panel + _GAP)
        return _MARGIN + max(_NARROWEST, panels)

    @property
    def panels_top(self) -> float:
        """Where the first line of panels begins, under the texts and the titles."""
        return len(self.texts) * _TEXT + _TITLES

    @property
    def line(self) -> float:
        """From one line of panels to the next."""
        return self.rows * _ROW + _CATEGORIES + _TITLES

    @property
    def height(self) -> float:
        return self.panels_top + self.lines * self.line - _TITLES + _MARGIN


def _draw_block(
    canvas: Canvas, explanation: Explanation, block: _Block, top: float
) -> list[AxesImage]:
    for line, text in enumerate(block.texts):
        canvas.text(_MARGIN, top + line * _TEXT, text, size=11.0)
    images = []
    for step, title in enumerate(_titles(explanation)):
        line, place = divmod(step, block.across)
        left = _MARGIN + block.labels + place * (block.panel + _GAP)
        high = top + block.panels_top + line * block.line
        axes = canvas.axes(left, high, block.panel, block.rows * _ROW)
        images.append(_draw_panel(axes, explanation, step, labels=place == 0))
        axes.set_title(title, parse_math=False, fontsize=9, pad=4, fontweight="bold")
    return images


def _titles(explanation: Explanation) -> list[str]:
    """What each panel comes before; a mark where that is copied."""
    copied = {copy.target for copy in explanation.copies}
    return [
        f"{word} {_COPIED}" if step in copied else word
        for step, word in enumerate(explanation.steps)
    ]


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
    for flip in explanation.flips:
        if flip.target in (step, step - 1):
            axes.add_patch(_frame(flip.source, before=flip.target == step))
    return image


def _frame(row: int, *, before: bool) -> Rectangle:
    """Around all columns of a source word."""
    return Rectangle(
        (-0.5, row - 0.5),
        len(CATEGORIES),
        1,
        fill=False,
        edgecolor=_FRAME,
        linewidth=1.6,
        linestyle=(0, (2, 2)) if before else "solid",
        clip_on=False,
        zorder=2 if before else 3,
    )


def _texts(explanations: Sequence[Explanation]) -> list[str]:
    sides = [side for each in explanations for side in (each.source, each.target)]
    return ["→", *(text for side in sides for text in (side.text, *side.words))]
