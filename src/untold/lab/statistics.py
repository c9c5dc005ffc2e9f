"""Scores of runs that differ in their seeds: means, their intervals, and differences by seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from untold.errors import UntoldError

EXACT_UP_TO = 20  # differences: a million sign patterns
_ROUNDING = 1e-9  # patterns of equal sums count although they were rounded differently
_LARGEST = 1e100  # scores: their squares are finite
# Below this t lies 97.5 % of Student's distribution with 1, 2, ... degrees of freedom.
_T = (
    *(12.7062047362, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356, 2.4469118511),
    *(2.3646242516, 2.3060041352, 2.2621571628, 2.2281388520, 2.2009851601, 2.1788128297),
    *(2.1603686565, 2.1447866879, 2.1314495456, 2.1199052992, 2.1098155778, 2.1009220402),
    *(2.0930240544, 2.0859634473, 2.0796138447, 2.0738730679, 2.0686576104, 2.0638985616),
    *(2.0595385528, 2.0555294386, 2.0518305165, 2.0484071418, 2.0452296421, 2.0422724563),
)
_NORMAL = 1.959963984540054


@dataclass(frozen=True)
class MeanInterval:
    """A mean of n values, their standard deviation, and the 95 % confidence interval of the mean.

    One value has neither deviation nor interval.
    """

    n: int
    mean: float
    deviation: float | None
    low: float | None
    high: float | None

    def __format__(self, sign: str) -> str:
        mean = f"{self.mean:{sign}.2f}"
        if self.low is None or self.high is None:
            return f"{mean} (n = 1)"
        return f"{mean} [{self.low:{sign}.2f}, {self.high:{sign}.2f}] (95 %, n = {self.n})"

    def __str__(self) -> str:
        return format(self, "")


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """Computes the mean of the values and its t-interval."""
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
        return MeanInterval(n, mean, None, None, None)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    reach = t_quantile(n - 1) * deviation / math.sqrt(n)
    return MeanInterval(n, mean, deviation, mean - reach, mean + reach)


def t_quantile(degrees: int) -> float:
    """Looks up the quantile of 97.5 %; beyond the table it is Cornish and Fisher's, to 2e-6."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z, n = _NORMAL, degrees
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


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
    """Tests whether the mean of paired differences is so far from zero by chance.

    If neither of two systems is better, each difference could as well have the opposite sign. p is
    the share of sign patterns whose sum is at least as far from zero as the real one: of all, or of
    patterns drawn at random, with the real one among them.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        raise UntoldError("a sign-flip test needs differences, and finite ones: leave out the rest")
    values = values / (np.abs(values).max() or 1.0)  # no sum can overflow
    real = abs(float(values.sum())) - _ROUNDING
    if len(values) <= EXACT_UP_TO:
        beyond = np.abs(_sums_of_all(values)) >= real
        return SignFlip(float(beyond.mean()), 2 ** len(values), True)
    drawn = drawn or SignPatterns()
    if drawn.number < 1:
        raise UntoldError(f"{drawn.number} sign patterns test nothing: ask for 10000, say")
    dice = np.random.default_rng(drawn.seed)
    signs = 2.0 * dice.integers(0, 2, (drawn.number, len(values)), dtype=np.int8) - 1
    count = int((np.abs(signs @ values) >= real).sum())
    return SignFlip((1 + count) / (1 + drawn.number), drawn.number, False)


def _sums_of_all(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " s"]:
    """Sums under the patterns that leave the first sign: the others are the same, negated."""
    sums = values[:1]
    for value in values[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return sums


@dataclass(frozen=True)
class SeedDifference:
    """The differences of two systems, seed by seed: their mean, its interval and the test."""

    seeds: tuple[int, ...]
    differences: tuple[float, ...]  # after - before
    interval: MeanInterval
    test: SignFlip

    def __str__(self) -> str:
        kind = "exact" if self.test.is_exact else f"{self.test.patterns} patterns"
        return f"{self.interval:+}, p = {self.test.p:.4f} (sign-flip test, {kind})"


def compare_seeds(before: Mapping[int, float], after: Mapping[int, float]) -> SeedDifference:
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
    interval = mean_interval(differences)
    return SeedDifference(seeds, differences, interval, sign_flip_test(differences))
