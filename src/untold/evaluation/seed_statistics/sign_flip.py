"""The sign-flip test: could the mean of paired differences be so far from zero by chance?

If neither of two systems is better, each difference could as well have the opposite sign. The test
counts the sign patterns whose sum is at least as far from zero as the real one, in either
direction. Up to 20 differences it looks at all patterns, so that p is exact. Of more differences it
draws patterns at random, and the real pattern counts as one of them, so that p is never zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from untold.errors import UntoldError

__all__ = ["EXACT_UP_TO", "SignFlip", "SignPatterns", "sign_flip_test"]

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
