"""Prints what the ratings of an adequacy sheet say, as a table and as JSON."""

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from untold.evaluation.adequacy_sheet import (
    MeasureDifference,
    RatedPair,
    RatedSystem,
    RaterAgreement,
    RaterFile,
    SheetResults,
)
from untold.evaluation.seed_statistics import MeanInterval
from untold.terminal.safe_console import console as make_console

__all__ = ["print_results", "results_record"]


def results_record(results: SheetResults) -> dict[str, Any]:
    """Converts everything that was counted for JSON."""
    return {
        "sheet": results.sheet,
        "raters": [_rater_record(rater, results.rows) for rater in results.raters],
        "systems": [asdict(system) for system in results.systems],
        "pairs": [asdict(pair) for pair in results.pairs],
        "agreement": asdict(results.agreement),
    }


def print_results(results: SheetResults, console: Console | None = None) -> None:
    """Prints a table of systems, one of their differences, and notes."""
    console = console or make_console()
    if not console.is_terminal:
        console.width = 10_000
    heading = ["system", "sentences", "ratings", "quality", "over-translated", "under-translated"]
    _print_table(console, heading, [_system_cells(each) for each in results.systems])
    if results.pairs:
        heading = ["difference", "sentences", "quality", "over-translated", "under-translated"]
        _print_table(console, heading, [_pair_cells(each) for each in results.pairs])
    for note in _notes(results):
        console.print(note, markup=False, soft_wrap=True)


def _print_table(console: Console, heading: list[str], rows: list[list[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(heading):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


def _system_cells(system: RatedSystem) -> list[str]:
    return [
        system.name,
        f"{system.quality.n:,}",
        f"{system.ratings:,}",
        f"{system.quality.mean:.2f}{_reach(system.quality)}",
        f"{100 * system.over:.1f} %",
        f"{100 * system.under:.1f} %",
    ]


def _pair_cells(pair: RatedPair) -> list[str]:
    name = f"{pair.second} - {pair.first}"
    shares = [_difference(each, 100, " %") for each in (pair.over, pair.under)]
    return [name, f"{pair.quality.interval.n:,}", _difference(pair.quality, 1, ""), *shares]


def _difference(found: MeasureDifference, scale: int, unit: str) -> str:
    digits = 1 if scale > 1 else 2
    return f"{scale * found.interval.mean:+.{digits}f}{unit} (p = {found.test.p:.4f})"


def _reach(interval: MeanInterval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" [{interval.low:.2f}, {interval.high:.2f}]"


def _notes(results: SheetResults) -> list[str]:
    notes = [
        "quality: mean of 1 to 5 over sentences with its 95 % interval (Student's t); "
        "over-, under-translated: share of sentences with such words",
    ]
    if results.pairs:
        tests = [pair.quality.test for pair in results.pairs]
        drawn = next((test.patterns for test in tests if not test.is_exact), None)
        kind = "exact" if drawn is None else f"{drawn:,} patterns, exact up to 20 sentences"
        notes.append(f"p: two-sided sign-flip test over sentences ({kind})")
    notes.append(_agreement_note(results.agreement, len(results.raters)))
    notes += [_rater_note(rater, results.rows) for rater in results.raters]
    return notes


def _agreement_note(agreement: RaterAgreement, raters: int) -> str:
    if agreement.over is None or agreement.under is None:
        return f"agreement: no translation was rated by two raters ({raters} in all)"
    alpha = "undefined, all are equal" if agreement.alpha is None else f"{agreement.alpha:.3f}"
    return (
        f"agreement on {agreement.translations:,} translations: quality alpha {alpha} "
        f"(Krippendorff, ordinal), over-translated {100 * agreement.over:.1f} %, under-translated "
        f"{100 * agreement.under:.1f} % equal marks"
    )


def _rater_note(rater: RaterFile, rows: int) -> str:
    skipped = f", {rater.half_filled:,} half-filled and skipped" if rater.half_filled else ""
    return f"{rater.name}: {len(rater.ratings):,} of {rows:,} translations rated{skipped}"


def _rater_record(rater: RaterFile, rows: int) -> dict[str, Any]:
    return {
        "file": rater.name,
        "rated": len(rater.ratings),
        "half_filled": rater.half_filled,
        "unrated": rows - len(rater.ratings) - rater.half_filled,
        "shifted_lines": list(rater.shifted),
    }
