"""Compares systems on several test sets, as the paper's Table 1 does. The first is the baseline.

A system is one run, or several runs that differ in their seeds; its score is then their mean.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from untold.errors import UntoldError
from untold.metrics.significance import (
    Differences,
    Paired,
    PValues,
    corpus_value,
    run_trials,
    sentence_statistics,
)
from untold.progress_bar import track
from untold.storage.summary import Parameters
from untold.terminal import console as make_console
from untold.terminal import print_table

_LEVELS = ((0.01, "**"), (0.05, "*"))  # both p-values must be below the level


@dataclass(frozen=True)
class ParallelText:
    """A test set with its name."""

    name: str
    sources: Sequence[str]
    references: Sequence[str]
    further_references: Sequence[Sequence[str]] = ()  # of the same sentences


@dataclass(frozen=True)
class SystemOutputs:
    """The translations of one system: texts[run][test set][sentence]."""

    name: str
    parameters: Parameters | None  # None: files of translations, whose model is not known
    texts: Sequence[Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Trials:
    """The number and the seed of the trials of both significance tests."""

    count: int
    seed: int


@dataclass(frozen=True)
class RunScores:
    """The score of each run of a system."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; a single run has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Row:
    """The results of one system; the baseline itself has no p-values."""

    name: str
    parameters: Parameters | None
    scores: tuple[RunScores, ...]  # of each test set
    average: RunScores  # of the test sets, in each run
    p_values: tuple[PValues, ...] | None = None  # of each test set
    average_p_values: PValues | None = None


@dataclass(frozen=True)
class Comparison:
    """A table of systems; the first row is the baseline."""

    metric: str
    signature: str
    tests: tuple[str, ...]
    rows: tuple[Row, ...]

    def difference(self, row: Row) -> float:
        """Subtracts the average of the baseline from that of a row."""
        return row.average.mean - self.rows[0].average.mean


def compare_outputs(
    metric: SacrebleuMetric,
    systems: Sequence[SystemOutputs],
    tests: Sequence[ParallelText],
    trials: Trials,
) -> Comparison:
    """Scores every system and tests its difference from the first one."""
    if empty := [test.name for test in tests if not test.references]:
        raise UntoldError(f"test set {empty[0]} is empty: give it at least one line")
    counts = [_statistics(metric, system, tests) for system in systems]
    rows = [_row(metric, systems[0], counts[0])]
    others = list(zip(systems[1:], counts[1:], strict=True))
    for system, own in track(others, "testing significance", len(others)):
        differences = [
            # The generator depends on the test set alone: all systems have the same trials.
            run_trials(
                metric, Paired(*pair), trials.count, np.random.default_rng([trials.seed, number])
            )
            for number, pair in enumerate(zip(counts[0], own, strict=True))
        ]
        rows.append(_row(metric, system, own, differences))
    signature = metric.get_signature()
    for key, value in (("bs", trials.count), ("ar", trials.count), ("seed", trials.seed)):
        signature.update(key, value)
    name = metric._compute_score_from_stats(counts[0][0][0].sum(0).tolist()).name
    return Comparison(name, str(signature), tuple(test.name for test in tests), tuple(rows))


def _statistics(
    metric: SacrebleuMetric, system: SystemOutputs, tests: Sequence[ParallelText]
) -> list[np.ndarray]:
    """Returns an array (run, sentence, statistic) for each test set."""
    return [
        np.stack(
            [
                sentence_statistics(metric, run[number], test.references, test.further_references)
                for run in system.texts
            ]
        )
        for number, test in enumerate(tests)
    ]


def _row(
    metric: SacrebleuMetric,
    system: SystemOutputs,
    counts: Sequence[np.ndarray],
    differences: Sequence[Differences] | None = None,
) -> Row:
    scores = tuple(
        RunScores(tuple(corpus_value(metric, run.sum(0)) for run in runs)) for runs in counts
    )
    each_run = zip(*(figure.values for figure in scores), strict=True)
    average = RunScores(tuple(statistics.fmean(values) for values in each_run))
    if differences is None:
        return Row(system.name, system.parameters, scores, average)
    p_values = tuple(difference.p_values() for difference in differences)
    average_p_values = Differences.average(differences).p_values()
    return Row(system.name, system.parameters, scores, average, p_values, average_p_values)


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
    """Prints a table with notes below it."""
    console = console or make_console()
    rows = [_cells(comparison, row) for row in comparison.rows]
    print_table(console, _heading(comparison), rows)
    for note in _notes(comparison):
        console.print(note, markup=False, soft_wrap=True)


def _heading(comparison: Comparison) -> list[str]:
    sizes = ["parameters", "w/o embeddings", "to translate"]
    return ["model", *sizes, *comparison.tests, "average", "p bootstrap", "p randomisation"]


def _cells(comparison: Comparison, row: Row) -> list[str]:
    marks = [""] * len(row.scores) if row.p_values is None else [_mark(p) for p in row.p_values]
    average, p_values = _score(row.average), row.average_p_values
    if p_values is not None:
        average += f"{_mark(p_values)} ({comparison.difference(row):+.2f})"
    return [
        row.name,
        *_sizes(row.parameters),
        *(_score(score) + mark for score, mark in zip(row.scores, marks, strict=True)),
        average,
        "" if p_values is None else f"{p_values.bootstrap:.4f}",
        "" if p_values is None else f"{p_values.randomisation:.4f}",
    ]


def _sizes(counts: Parameters | None) -> list[str]:
    if counts is None:
        return ["-"] * 3
    sizes = counts.total, counts.without_embeddings, counts.to_translate_with
    return [f"{size:,}" for size in sizes]


def _score(figure: RunScores) -> str:
    spread = "" if figure.deviation is None else f" ± {figure.deviation:.2f}"
    return f"{figure.mean:.2f}{spread}"


def _mark(p_values: PValues) -> str:
    largest = max(p_values.bootstrap, p_values.randomisation)
    return next((mark for level, mark in _LEVELS if largest < level), "")


def _notes(comparison: Comparison) -> list[str]:
    name = comparison.rows[0].name
    levels = ", ".join(f"{mark} p < {level}" for level, mark in reversed(_LEVELS))
    return [
        f"{comparison.metric}, {comparison.signature}",
        f"{levels} in both tests against {name}; p-values: of the average",
    ]


def _record(comparison: Comparison, row: Row) -> dict[str, Any]:
    p_values = row.p_values or [None] * len(row.scores)
    tests = zip(comparison.tests, row.scores, p_values, strict=True)
    return {
        "name": row.name,
        "runs": len(row.average.values),
        "parameters": None if row.parameters is None else asdict(row.parameters),
        "scores": {name: _figure(score) | _p(p) for name, score, p in tests},
        "average": _figure(row.average) | _p(row.average_p_values),
        "difference": comparison.difference(row),
    }


def _figure(figure: RunScores) -> dict[str, Any]:
    return {"mean": figure.mean, "deviation": figure.deviation, "values": list(figure.values)}


def _p(p_values: PValues | None) -> dict[str, Any]:
    return {"p": None if p_values is None else asdict(p_values)}
