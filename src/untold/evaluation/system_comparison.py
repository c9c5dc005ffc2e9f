"""Several systems on several test sets, as the paper's tables have them: the first is the baseline.

A system is one run, or a family of runs that differ in their seeds: its scores are then the mean
over the runs, with their standard deviation.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sacrebleu.metrics.base import Metric

from untold.errors import UntoldError
from untold.evaluation.significance import (
    Differences,
    Paired,
    PValues,
    corpus_value,
    sentence_statistics,
    try_chance,
)
from untold.evaluation.speed_race import Speed
from untold.storage.model_summary import Parameters

__all__ = [
    "Comparison",
    "Figure",
    "ParallelText",
    "Row",
    "SystemOutputs",
    "Trials",
    "compare_outputs",
]


@dataclass(frozen=True)
class ParallelText:
    """A test set."""

    name: str
    sources: Sequence[str]
    references: Sequence[str]


@dataclass(frozen=True)
class SystemOutputs:
    """What the runs of one system made of every test set: texts[run][test set][sentence]."""

    name: str
    parameters: Parameters
    texts: Sequence[Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Trials:
    """How significance is tested."""

    count: int
    seed: int


@dataclass(frozen=True)
class Figure:
    """A score of each run."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the runs."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; a single run has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Row:
    """One system. What is relative to the baseline is None for the baseline itself."""

    name: str
    parameters: Parameters
    scores: tuple[Figure, ...]  # of each test set
    average: Figure  # of the test sets, in each run
    p_values: tuple[PValues, ...] | None = None  # of each test set
    average_p_values: PValues | None = None


@dataclass(frozen=True)
class Comparison:
    """A table: its rows, and beside them the speeds that were measured."""

    metric: str
    signature: str
    tests: tuple[str, ...]
    rows: tuple[Row, ...]
    training: Mapping[str, Speed] = field(default_factory=dict)  # by row
    decoding: Mapping[str, Speed] = field(default_factory=dict)

    def difference(self, row: Row) -> float:
        """Of the averages of a row and of the baseline."""
        return row.average.mean - self.rows[0].average.mean


def compare_outputs(
    metric: Metric, systems: Sequence[SystemOutputs], tests: Sequence[ParallelText], trials: Trials
) -> Comparison:
    """Scores of every system, and how likely chance makes its difference from the first."""
    if empty := [test.name for test in tests if not test.references]:
        raise UntoldError(f"test set {empty[0]} is empty: give it at least one line")
    found = [_statistics(metric, system, tests) for system in systems]
    rows = [_row(metric, systems[0], found[0])]
    for system, own in zip(systems[1:], found[1:], strict=True):
        chances = [
            # One generator for each test set, the same for all systems: they meet the same trials.
            try_chance(
                metric, Paired(*pair), trials.count, np.random.default_rng([trials.seed, number])
            )
            for number, pair in enumerate(zip(found[0], own, strict=True))
        ]
        rows.append(_row(metric, system, own, chances))
    signature = metric.get_signature()
    for key, value in (("bs", trials.count), ("ar", trials.count), ("seed", trials.seed)):
        signature.update(key, value)
    name = metric._compute_score_from_stats(found[0][0][0].sum(0).tolist()).name
    return Comparison(name, str(signature), tuple(test.name for test in tests), tuple(rows))


def _statistics(
    metric: Metric, system: SystemOutputs, tests: Sequence[ParallelText]
) -> list[np.ndarray]:
    """Of each test set: (run, sentence, statistic)."""
    return [
        np.stack(
            [sentence_statistics(metric, run[number], test.references) for run in system.texts]
        )
        for number, test in enumerate(tests)
    ]


def _row(
    metric: Metric,
    system: SystemOutputs,
    found: Sequence[np.ndarray],
    chances: Sequence[Differences] | None = None,
) -> Row:
    scores = tuple(
        Figure(tuple(corpus_value(metric, run.sum(0)) for run in runs)) for runs in found
    )
    each_run = zip(*(figure.values for figure in scores), strict=True)
    average = Figure(tuple(statistics.fmean(values) for values in each_run))
    if chances is None:
        return Row(system.name, system.parameters, scores, average)
    of_each = tuple(chance.p_values() for chance in chances)
    of_all = Differences.average(chances).p_values()
    return Row(system.name, system.parameters, scores, average, of_each, of_all)
