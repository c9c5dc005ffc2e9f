"""Scores of runs that differ in their seeds: of one system, and of two systems paired by seed.

The sign-flip test: could the mean of paired differences be so far from zero by chance?

If neither of two systems is better, each difference could as well have the opposite sign. The test
counts the sign patterns whose sum is at least as far from zero as the real one, in either
direction. Up to 20 differences it looks at all patterns, so that p is exact. Of more differences it
draws patterns at random, and the real pattern counts as one of them, so that p is never zero.

Student's t: its quantiles, and the confidence interval of a mean that they give.

    P(|T| > t)  =  I_x(n / 2, 1 / 2)   with   x = n / (n + t²)

I is the regularised incomplete beta function and n the degrees of freedom. Its continued fraction
(Abramowitz and Stegun, 26.5.8) is evaluated by the method of Lentz. The quantile is found by
bisection, which cannot fail: the left side falls from one to zero as t grows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Float

from untold.errors import UntoldError

EXACT_UP_TO = 20  # differences: a million patterns
_ROUNDING = 1e-9  # patterns of equal sums count although they were rounded differently
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class SignPatterns:
    """The number of patterns that are drawn where there are too many to try; a seed fixes them."""

    number: int = 10_000
    seed: int = 1


@dataclass(frozen=True)
class SignFlip:
    """The two-sided p-value, from how many patterns, and whether these were all there are."""

    p: float
    patterns: int
    is_exact: bool


def sign_flip_test(differences: Sequence[float], drawn: SignPatterns | None = None) -> SignFlip:
    """Tests whether the differences lean to one side; those of equal systems have p = 1."""
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        raise UntoldError("no differences: a sign-flip test needs one at least")
    if not np.isfinite(values).all():
        raise UntoldError("a difference is no finite number: leave its pair out")
    largest = np.abs(values).max()
    if largest > 0:
        values = values / largest  # p does not depend on the scale, and no sum can overflow
    real = abs(float(values.sum())) - _ROUNDING
    if len(values) <= EXACT_UP_TO:
        beyond = np.abs(_sums_of_all(values)) >= real
        return SignFlip(float(beyond.mean()), 2 ** len(values), True)
    drawn = drawn or SignPatterns()
    if drawn.number < 1:
        raise UntoldError(f"{drawn.number} sign patterns test nothing: ask for 10000, say")
    count = int((np.abs(_sums_of_some(values, drawn)) >= real).sum())
    return SignFlip((1 + count) / (1 + drawn.number), drawn.number, False)


def _sums_of_all(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " s"]:
    """Sums under the patterns that leave the first sign: the others are the same, negated."""
    sums = values[:1]
    for value in values[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _sums_of_some(values: Float[np.ndarray, " n"], drawn: SignPatterns) -> Float[np.ndarray, " s"]:
    dice, parts = np.random.default_rng(drawn.seed), []
    size = max(1, _CELLS_AT_ONCE // len(values))
    for first in range(0, drawn.number, size):
        shape = min(size, drawn.number - first), len(values)
        is_kept = dice.integers(0, 2, shape, dtype=np.int8)
        parts.append((2.0 * is_kept - 1) @ values)
    return np.concatenate(parts)


_LARGEST = 1e100  # scores: their squares are finite
_TINY = 1e-300  # stands for zero in a denominator
_PRECISE = 1e-15  # the continued fraction, and the bisection, end when they change by less


@dataclass(frozen=True)
class MeanInterval:
    """A mean of n values, their standard deviation, and the confidence interval of the mean.

    One value has neither deviation nor interval.
    """

    n: int
    mean: float
    deviation: float | None
    low: float | None
    high: float | None
    level: float


def mean_interval(values: Sequence[float], level: float = 0.95) -> MeanInterval:
    """Computes mean, standard deviation (over n - 1) and the t-interval of the mean."""
    if not 0 < level < 1:
        raise UntoldError(f"the level {level} of an interval must be between 0 and 1: try 0.95")
    n = len(values)
    if not n:
        raise UntoldError("no values have no mean: give one at least")
    for value in values:
        if not abs(value) <= _LARGEST:  # also refuses NaN
            raise UntoldError(
                f"the score {value} must be a number up to {_LARGEST:g}: leave it out"
            )
    mean = math.fsum(values) / n
    if n == 1:
        return MeanInterval(n, mean, None, None, None, level)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    reach = t_quantile(0.5 + level / 2, n - 1) * deviation / math.sqrt(n)
    return MeanInterval(n, mean, deviation, mean - reach, mean + reach, level)


def t_quantile(probability: float, degrees: int) -> float:
    """Returns the t that Student's T with these degrees of freedom stays below so probably."""
    if not 0 < probability < 1 or degrees < 1:
        raise UntoldError(
            f"probability {probability}, {degrees} degrees of freedom: the probability must be "
            "between 0 and 1, and the degrees one at least"
        )
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    beyond = 2 * (1 - probability)  # of both tails
    low, high = 0.0, 1.0
    while _both_tails(high, degrees) > beyond:
        low, high = high, 2 * high
    while high - low > _PRECISE * max(1.0, high):
        middle = (low + high) / 2
        if _both_tails(middle, degrees) > beyond:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _both_tails(t: float, degrees: int) -> float:
    """Returns P(|T| > t)."""
    x = degrees / (degrees + t * t)
    y = t * t / (degrees + t * t)  # 1 - x, but precise for small t
    return _incomplete_beta(x, y, degrees / 2, 0.5)


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """Returns I_x(a, b) for y = 1 - x; the continued fraction is quick below the mean of Beta."""
    if x == 0 or y == 0:
        return float(y == 0)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y)
    )
    if x <= (a + 1) / (a + b + 2):
        return front / (a * _continued_fraction(x, a, b))
    return 1 - front / (b * _continued_fraction(y, b, a))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Returns 1 + d1 / (1 + d2 / (1 + ...)), by Lentz's method."""
    value, c, d = 1.0, 1.0, 0.0
    for place in count(1):
        m, is_odd = divmod(place, 2)
        if is_odd:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d or _TINY)
        c = 1 + term / c or _TINY
        value *= c * d
        if abs(c * d - 1) < _PRECISE:
            break
    return value


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
