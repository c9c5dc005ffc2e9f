"""Draws the reliability diagram: what probabilities said, against what was true."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from untold.errors import UntoldError
from untold.report.canvas import MARGIN, Canvas, render
from untold.storage.calibration import ReliabilityBin

__all__ = ["check_diagram", "reliability_diagram"]

_SIDE = 3.2  # inches of the square
_KINDS = ("png", "svg")


def check_diagram(path: Path) -> str:
    """Returns the format that the suffix names; refuses others."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in _KINDS:
        raise UntoldError(f"{path}: a diagram is a .png or .svg file: choose one of them")
    return kind


def reliability_diagram(bins: Sequence[ReliabilityBin], error: float, kind: str) -> bytes:
    """Draws one point for each bin, as large as it has words, and the line of perfection."""

    def draw() -> Figure:
        size = _SIDE + 4 * MARGIN
        canvas = Canvas(Figure(figsize=(size, size + 2 * MARGIN)))
        axes = canvas.axes(3 * MARGIN, 2.5 * MARGIN, _SIDE, _SIDE)
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1.0, linestyle="--")
        said, true = [each.said for each in bins], [each.true for each in bins]
        most = max((each.count for each in bins), default=1)
        sizes = [20 + 180 * (each.count / most) ** 0.5 for each in bins]
        axes.plot(said, true, color="C0", linewidth=1.0)
        axes.scatter(said, true, s=sizes, color="C0", alpha=0.8, clip_on=False, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability said", ylabel="share omitted")
        axes.set_aspect("equal")
        words = sum(each.count for each in bins)
        title = f"{words:,} words, expected calibration error {error:.4f}"
        canvas.text(MARGIN, MARGIN, title, size=9.0)
        return canvas.figure

    return render(draw, [], kind)
