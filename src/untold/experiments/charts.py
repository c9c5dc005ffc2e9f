"""Draws the charts of figures: bars and lines, one colour for each system."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from untold.report.canvas import MARGIN, Canvas, render

__all__ = ["ChartLine", "bar_chart", "line_chart"]

_WIDTH, _HEIGHT = 5.0, 3.2  # inches of the axes
_MARKS = "osD^vPX*"


class ChartLine(NamedTuple):
    """One line of a chart; a value of None leaves a gap."""

    name: str
    values: Sequence[float | None]


def line_chart(
    places: Sequence[str], lines: Sequence[ChartLine], labels: tuple[str, str], kind: str
) -> bytes:
    """Draws lines over named places; `labels` are those of both axes."""

    def draw() -> Figure:
        canvas, axes = _axes()
        for number, line in enumerate(lines):
            points = [(k, value) for k, value in enumerate(line.values) if value is not None]
            axes.plot(
                [k for k, _ in points],
                [value for _, value in points],
                marker=_MARKS[number % len(_MARKS)],
                label=line.name,
            )
        axes.set_xticks(range(len(places)), places)
        axes.set(xlabel=labels[0], ylabel=labels[1])
        axes.legend(fontsize=8)
        return canvas.figure

    return render(draw, [*places, *(line.name for line in lines)], kind)


def bar_chart(names: Sequence[str], values: Sequence[float], label: str, kind: str) -> bytes:
    """Draws one bar for each name; the axis begins near the smallest value."""

    def draw() -> Figure:
        canvas, axes = _axes()
        axes.bar(range(len(names)), values, color=[f"C{k}" for k in range(len(names))])
        spread = max(values) - min(values) or abs(max(values)) or 1.0
        axes.set_ylim(min(values) - spread, max(values) + 0.2 * spread)
        for place, value in enumerate(values):
            axes.annotate(f"{value:.2f}", (place, value), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(names)), names, rotation=15, ha="right", fontsize=8)
        axes.set(ylabel=label)
        return canvas.figure

    return render(draw, names, kind)


def _axes() -> tuple[Canvas, Axes]:
    canvas = Canvas(Figure(figsize=(_WIDTH + 5 * MARGIN, _HEIGHT + 6 * MARGIN)))
    return canvas, canvas.axes(4 * MARGIN, MARGIN, _WIDTH, _HEIGHT)
