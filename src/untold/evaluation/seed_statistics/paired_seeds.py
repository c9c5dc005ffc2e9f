"""Scores of runs that differ in their seeds: of one system, and of two systems paired by seed."""

from collections.abc import Mapping
from dataclasses import dataclass

from untold.errors import UntoldError
from untold.evaluation.seed_statistics.sign_flip import SignFlip, sign_flip_test
from untold.evaluation.seed_statistics.student_t import MeanInterval, mean_interval

__all__ = ["SeedDifference", "SeedSummary", "compare_seeds", "summarise_seeds"]


@dataclass(frozen=True)
class SeedSummary:
    """The scores of one system, a run for each seed, and their mean with its interval."""

    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    interval: MeanInterval

    def __str__(self) -> str:
        return _words(self.interval, "")


@dataclass(frozen=True)
class SeedDifference:
    """The differences of two systems, seed by seed: their mean, its interval and the test."""

    seeds: tuple[int, ...]
    differences: tuple[float, ...]  # after - before
    interval: MeanInterval
    test: SignFlip

    def __str__(self) -> str:
        kind = "exact" if self.test.is_exact else f"{self.test.patterns} patterns"
        return f"{_words(self.interval, '+')}, p = {self.test.p:.4f} (sign-flip test, {kind})"


def summarise_seeds(scores: Mapping[int, float], level: float = 0.95) -> SeedSummary:
    """Computes the mean of the scores, which are given by seed, and its t-interval."""
    seeds = tuple(sorted(scores))
    values = tuple(float(scores[seed]) for seed in seeds)
    return SeedSummary(seeds, values, mean_interval(values, level))


def compare_seeds(
    before: Mapping[int, float], after: Mapping[int, float], level: float = 0.95
) -> SeedDifference:
    """Compares two systems by the scores of the same seeds, which both must have.

    With n seeds the smallest p is 2 / 2^n: fewer than six can reach no p below 0.05.
    """
    if lacking := sorted(before.keys() ^ after.keys()):
        seed = lacking[0]
        place = "first" if seed in after else "second"
        raise UntoldError(
            f"the {place} system has no score of seed {seed}: systems are paired by seed, so run "
            "the same seeds of both"
        )
    seeds = tuple(sorted(before))
    differences = tuple(float(after[seed]) - float(before[seed]) for seed in seeds)
    interval = mean_interval(differences, level)
    return SeedDifference(seeds, differences, interval, sign_flip_test(differences))


def _words(interval: MeanInterval, sign: str) -> str:
    mean = f"{interval.mean:{sign}.2f}"
    if interval.low is None or interval.high is None:
        return f"{mean} (n = 1)"
    reach = f"[{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"
    return f"{mean} {reach} ({100 * interval.level:g} %, n = {interval.n})"
