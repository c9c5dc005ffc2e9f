"""Past and future layers as a picture: how alike each layer's states are, piece by piece.

A row and a column for each target piece and the end; a cell is the cosine of the two states. A
layer that takes note of every piece is dark on the diagonal alone; a block around it means that its
pieces changed little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from untold.introspection.pfrnn_explanation import LayerExplanation
from untold.report.canvas import Canvas, render, wrap_text
from untold.report.fonts import display_width

__all__ = ["draw_layers", "layer_figure"]

_LAYERS = ("past", "future")
_COLOURS = "RdBu"
_CAPTION = "Cosines of a layer's states after each target piece. Blue: alike. Red: opposed."
# Inches:
_CELL, _SMALLEST, _PANEL, _LETTER = 0.24, 0.1, 6.0, 0.082
_MARGIN, _GAP, _TEXT, _TITLE, _BAR, _NARROWEST = 0.2, 0.15, 0.22, 0.3, 0.85, 5.0


def draw_layers(explanations: Sequence[LayerExplanation], kind: str) -> bytes:
    """A picture (png or svg) with a block for each explanation, one below the other."""
    return render(lambda: layer_figure(explanations), _texts(explanations), kind)


def layer_figure(explanations: Sequence[LayerExplanation]) -> Figure:
    """For each explanation an axes of the past, then one of the future; last the colour bar."""
    blocks = [_Block.of(explanation) for explanation in explanations]
    width = max(block.width for block in blocks) + _BAR
    height = sum(block.height for block in blocks) + 2 * _MARGIN
    canvas = Canvas(Figure(figsize=(width, height)))
    canvas.text(_MARGIN, height - 1.5 * _MARGIN, _CAPTION, size=7.0)
    top, images = _MARGIN, []
    for explanation, block in zip(explanations, blocks, strict=True):
        images += _draw_block(canvas, explanation, block, top)
        top += block.height
    first = blocks[0]
    place = (width - _BAR, _MARGIN + first.panels_top, 0.12, first.panel)
    bar = canvas.figure.colorbar(images[0], cax=canvas.axes(*place))
    bar.outline.set_visible(False)
    return canvas.figure


@dataclass(frozen=True)
class _Block:
    """The measures of one sentence."""

    texts: tuple[str, ...]  # both texts, line by line
    labels: float  # room for the longest piece
    cell: float
    panel: float

    @classmethod
    def of(cls, explanation: LayerExplanation) -> "_Block":
        pieces = explanation.layers.pieces
        cell = min(_CELL, max(_SMALLEST, _PANEL / len(pieces)))
        labels = max(map(display_width, pieces)) * _LETTER + _GAP
        wide = max(_NARROWEST, labels + 2 * cell * len(pieces))
        texts = wrap_text(explanation.source.text, int(wide / (1.25 * _LETTER)))
        texts += wrap_text(f"→ {explanation.target.text}", int(wide / (1.25 * _LETTER)))
        return cls(texts, labels, cell, cell * len(pieces))

    @property
    def width(self) -> float:
        return _MARGIN + max(_NARROWEST, self.labels + 2 * (self.panel + _GAP))

    @property
    def panels_top(self) -> float:
        """Where the panels begin, under the texts and the titles."""
        return len(self.texts) * _TEXT + _TITLE

    @property
    def height(self) -> float:
        return self.panels_top + self.panel + self.labels + _MARGIN


def _draw_block(
    canvas: Canvas, explanation: LayerExplanation, block: _Block, top: float
) -> list[AxesImage]:
    for line, text in enumerate(block.texts):
        canvas.text(_MARGIN, top + line * _TEXT, text, size=11.0)
    images, cosines = [], explanation.layers.cosines()
    for place, name in enumerate(_LAYERS):
        left = _MARGIN + block.labels + place * (block.panel + _GAP)
        axes = canvas.axes(left, top + block.panels_top, block.panel, block.panel)
        images.append(
            axes.imshow(cosines[name], cmap=_COLOURS, vmin=-1.0, vmax=1.0, interpolation="nearest")
        )
        axes.set_title(name.upper(), fontsize=9, pad=4, fontweight="bold")
        _label(axes, explanation.layers.pieces, 8 * block.cell / _CELL, rows=place == 0)
    return images


def _label(axes: Axes, pieces: Sequence[str], size: float, *, rows: bool) -> None:
    places = range(len(pieces))
    axes.set_xticks(places, pieces, rotation=90, parse_math=False)
    axes.set_yticks(places, pieces if rows else [""] * len(pieces), parse_math=False)
    axes.tick_params(length=0, labelsize=size)
    axes.spines[:].set_color("#b0b0b0")


def _texts(explanations: Sequence[LayerExplanation]) -> list[str]:
    texts = [text for each in explanations for text in (each.source.text, each.target.text)]
    return ["→", *texts, *(piece for each in explanations for piece in each.layers.pieces)]
