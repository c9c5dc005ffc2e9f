"""Compares systems on several test sets, as the paper's Table 1 does. The first is the baseline.

A system is one run, or several runs that differ in their seeds; its score is then their mean.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from untold.errors import UntoldError
from untold.evaluation.significance import (
    Differences,
    Paired,
    PValues,
    corpus_value,
    run_trials,
    sentence_statistics,
)
from untold.evaluation.speed_race import Speed
from untold.feedback import track
from untold.storage.model_summary import Parameters

__all__ = [
    "Comparison",
    "ParallelText",
    "Row",
    "RunScores",
    "SystemOutputs",
    "Trials",
    "compare_outputs",
]


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
    parameters: Parameters
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
    parameters: Parameters
    scores: tuple[RunScores, ...]  # of each test set
    average: RunScores  # of the test sets, in each run
    p_values: tuple[PValues, ...] | None = None  # of each test set
    average_p_values: PValues | None = None


@dataclass(frozen=True)
class Comparison:
    """A table of systems, with the speeds that were measured."""

    metric: str
    signature: str
    tests: tuple[str, ...]
    rows: tuple[Row, ...]
    training: Mapping[str, Speed] = field(default_factory=dict)  # by row
    decoding: Mapping[str, Speed] = field(default_factory=dict)

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
    found = [_statistics(metric, system, tests) for system in systems]
    rows = [_row(metric, systems[0], found[0])]
    others = list(zip(systems[1:], found[1:], strict=True))
    for system, own in track(others, "testing significance", len(others)):
        differences = [
            # The generator depends on the test set alone: all systems have the same trials.
            run_trials(
                metric, Paired(*pair), trials.count, np.random.default_rng([trials.seed, number])
            )
            for number, pair in enumerate(zip(found[0], own, strict=True))
        ]
        rows.append(_row(metric, system, own, differences))
    signature = metric.get_signature()
    for key, value in (("bs", trials.count), ("ar", trials.count), ("seed", trials.seed)):
        signature.update(key, value)
    name = metric._compute_score_from_stats(found[0][0][0].sum(0).tolist()).name
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
    found: Sequence[np.ndarray],
    differences: Sequence[Differences] | None = None,
) -> Row:
    scores = tuple(
        RunScores(tuple(corpus_value(metric, run.sum(0)) for run in runs)) for runs in found
    )
    each_run = zip(*(figure.values for figure in scores), strict=True)
    average = RunScores(tuple(statistics.fmean(values) for values in each_run))
    if differences is None:
        return Row(system.name, system.parameters, scores, average)
    of_each = tuple(each.p_values() for each in differences)
    of_all = Differences.average(differences).p_values()
    return Row(system.name, system.parameters, scores, average, of_each, of_all)
