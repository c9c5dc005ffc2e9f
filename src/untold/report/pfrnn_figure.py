"""Draws the states of a PFRNN: cosines of each layer's states after all pairs of pieces.

A panel has a row and a column for each target piece and the end; a cell is the cosine of the two
states. A layer that registers every piece is dark on the diagonal alone. A dark block around the
diagonal means that the pieces in it changed the state little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from untold.introspection.pfrnn_explanation import PfrnnExplanation
from untold.report.canvas import (
    LETTER,
    LINE,
    MARGIN,
    Block,
    Canvas,
    render,
    stack_blocks,
    wrap_text,
)
from untold.report.fonts import display_width

__all__ = ["pfrnn_figure", "pfrnn_png", "pfrnn_svg"]

_COLOURS = "RdBu"
_CAPTION = "Cosines of a layer's states after each target piece. Blue: alike. Red: opposed."
# Inches:
_CELL, _SMALLEST, _PANEL = 0.24, 0.1, 6.0
_GAP, _TITLE, _BAR, _NARROWEST = 0.15, 0.3, 0.85, 5.0


def pfrnn_png(explanations: Sequence[PfrnnExplanation]) -> bytes:
    """Draws a PNG with a block for each explanation, one below the other."""
    return render(lambda: pfrnn_figure(explanations), _texts(explanations), "png")


def pfrnn_svg(explanations: Sequence[PfrnnExplanation]) -> bytes:
    """Draws an SVG with a block for each explanation, one below the other."""
    return render(lambda: pfrnn_figure(explanations), _texts(explanations), "svg")


def pfrnn_figure(explanations: Sequence[PfrnnExplanation]) -> Figure:
    """Makes for each explanation axes of the past, then of the future; last the colour bar."""
    blocks = [_PairOfPanels.of(explanation).block() for explanation in explanations]
    return stack_blocks(blocks, _CAPTION, (max(block.width for block in blocks), _BAR))


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
        cell = min(_CELL, max(_SMALLEST, _PANEL / len(pieces)))
        labels = max(map(display_width, pieces)) * LETTER + _GAP
        return cls(explanation, labels, cell, cell * len(pieces))

    def block(self) -> Block:
        """Lays out the texts and the panels below them."""
        letters = int(max(_NARROWEST, self.labels + 2 * self.panel) / (1.25 * LETTER))
        texts = wrap_text(self.explanation.source.text, letters)
        texts += wrap_text(f"→ {self.explanation.target.text}", letters)
        panels_top = len(texts) * LINE + _TITLE
        return Block(
            texts,
            width=MARGIN + max(_NARROWEST, self.labels + 2 * (self.panel + _GAP)),
            height=panels_top + self.panel + self.labels + MARGIN,
            panels_top=panels_top,
            panels_height=self.panel,
            draw=lambda canvas, top: self._draw(canvas, top + panels_top),
        )

    def _draw(self, canvas: Canvas, top: float) -> list[AxesImage]:
        states, images = self.explanation.pfrnn, []
        for place, (name, cosines) in enumerate(states.cosines().items()):
            left = MARGIN + self.labels + place * (self.panel + _GAP)
            axes = canvas.axes(left, top, self.panel, self.panel)
            images.append(
                axes.imshow(cosines, cmap=_COLOURS, vmin=-1.0, vmax=1.0, interpolation="nearest")
            )
            axes.set_title(name.upper(), fontsize=9, pad=4, fontweight="bold")
            _label(axes, states.pieces, 8 * self.cell / _CELL, rows=place == 0)
        return images


def _label(axes: Axes, pieces: Sequence[str], size: float, *, rows: bool) -> None:
    places = range(len(pieces))
    axes.set_xticks(places, pieces, rotation=90, parse_math=False)
    axes.set_yticks(places, pieces if rows else [""] * len(pieces), parse_math=False)
    axes.tick_params(length=0, labelsize=size)
    axes.spines[:].set_color("#b0b0b0")


def _texts(explanations: Sequence[PfrnnExplanation]) -> list[str]:
    texts = [text for each in explanations for text in (each.source.text, each.target.text)]
    return ["→", *texts, *(piece for each in explanations for piece in each.pfrnn.pieces)]
