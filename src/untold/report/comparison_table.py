"""Prints a comparison of systems to the terminal, as Markdown and as JSON."""

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from untold.evaluation.significance import PValues
from untold.evaluation.speed_race import Speed
from untold.evaluation.system_comparison import Comparison, Row, RunScores
from untold.terminal.safe_console import console as make_console

__all__ = ["comparison_markdown", "comparison_record", "print_comparison"]

_LEVELS = ((0.01, "**"), (0.05, "*"))  # both p-values must be below the level


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """Converts everything that was measured for JSON."""
    return {
        "metric": comparison.metric,
        "signature": comparison.signature,
        "baseline": comparison.rows[0].name,
        "tests": list(comparison.tests),
        "rows": [_record(comparison, row) for row in comparison.rows],
    }


def comparison_markdown(comparison: Comparison) -> str:
    """Formats a Markdown table with notes below it."""
    heading = _heading(comparison)
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)]]
    lines += [_cells(comparison, row) for row in comparison.rows]
    table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    notes = [note.replace("*", "\\*") for note in _notes(comparison)]
    return "\n".join([*table, "", *(f"- {note}" for note in notes)])


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Prints a table; if the output is no terminal, the table is as wide as it needs."""
    console = console or make_console()
    if not console.is_terminal:
        console.width = 10_000
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(_heading(comparison)):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in comparison.rows:
        table.add_row(*_cells(comparison, row))
    console.print(table, markup=False)
    for note in _notes(comparison):
        console.print(note, markup=False, soft_wrap=True)


def _heading(comparison: Comparison) -> list[str]:
    speeds = (("training", comparison.training), ("decoding", comparison.decoding))
    return [
        "model",
        "parameters",
        "w/o embeddings",
        "to translate",
        *(name for name, speed in speeds if speed),
        *comparison.tests,
        "average",
        "p bootstrap",
        "p randomisation",
    ]


def _cells(comparison: Comparison, row: Row) -> list[str]:
    counts = row.parameters
    marks = [""] * len(row.scores) if row.p_values is None else [_mark(p) for p in row.p_values]
    average, p_values = _score(row.average), row.average_p_values
    if p_values is not None:
        average += f"{_mark(p_values)} ({comparison.difference(row):+.2f})"
    return [
        row.name,
        f"{counts.total:,}",
        f"{counts.without_embeddings:,}",
        f"{counts.to_translate_with:,}",
        *(_times(speed[row.name]) for speed in (comparison.training, comparison.decoding) if speed),
        *(_score(score) + mark for score, mark in zip(row.scores, marks, strict=True)),
        average,
        "" if p_values is None else f"{p_values.bootstrap:.4f}",
        "" if p_values is None else f"{p_values.randomisation:.4f}",
    ]


def _score(figure: RunScores) -> str:
    spread = "" if figure.deviation is None else f" ± {figure.deviation:.2f}"
    return f"{figure.mean:.2f}{spread}"


def _times(speed: Speed) -> str:
    """Formats the median ratio to the baseline and its range over the rounds."""
    if speed.ratio is None:
        return "-"
    low, high = min(speed.ratios), max(speed.ratios)
    spread = "" if low == high else f" ({low:.2f} to {high:.2f})"
    return f"{speed.ratio:.2f}×{spread}"


def _mark(p_values: PValues) -> str:
    largest = max(p_values.bootstrap, p_values.randomisation)
    return next((mark for level, mark in _LEVELS if largest < level), "")


def _notes(comparison: Comparison) -> list[str]:
    name = comparison.rows[0].name
    levels = ", ".join(f"{mark} p < {level}" for level, mark in reversed(_LEVELS))
    notes = [
        f"{comparison.metric}, {comparison.signature}",
        f"{levels} in both tests against {name}; p-values: of the average",
    ]
    rates = {"target tokens/s in training": comparison.training}
    rates |= {"words/s in decoding": comparison.decoding}
    measured = [f"{speed[name].rate:,.0f} {unit}" for unit, speed in rates.items() if speed]
    return [
        *notes,
        *([f"speeds: times those of {name}, {', '.join(measured)}"] if measured else []),
    ]


def _record(comparison: Comparison, row: Row) -> dict[str, Any]:
    p_values = row.p_values or [None] * len(row.scores)
    tests = zip(comparison.tests, row.scores, p_values, strict=True)
    return {
        "name": row.name,
        "runs": len(row.average.values),
        "parameters": asdict(row.parameters),
        "training": _speed(comparison.training.get(row.name)),
        "decoding": _speed(comparison.decoding.get(row.name)),
        "scores": {name: _figure(score) | _p(p) for name, score, p in tests},
        "average": _figure(row.average) | _p(row.average_p_values),
        "difference": comparison.difference(row),
    }


def _figure(figure: RunScores) -> dict[str, Any]:
    return {"mean": figure.mean, "deviation": figure.deviation, "values": list(figure.values)}


def _p(p_values: PValues | None) -> dict[str, Any]:
    return {"p": None if p_values is None else asdict(p_values)}


def _speed(speed: Speed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {"rate": speed.rate, "ratio": speed.ratio, "ratios": list(speed.ratios)}
