"""Draws explanations by shares as figures: short sentences in panels, long ones as an overview."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure

from untold.introspection.share_explanation import ShareExplanation
from untold.report.canvas import render, stack_blocks
from untold.report.heatmaps.heatmap import BAR, drawn_texts, panel_block, panel_caption
from untold.report.heatmaps.overview_figure import OVERVIEW_CAPTION, overview_block

__all__ = [
    "MOST_PANELS",
    "overview_png",
    "overview_svg",
    "panels_png",
    "panels_svg",
    "share_figure",
    "share_png",
    "share_svg",
]

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
