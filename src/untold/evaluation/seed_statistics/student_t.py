"""Student's t: its quantiles, and the confidence interval of a mean that they give.

    P(|T| > t)  =  I_x(n / 2, 1 / 2)   with   x = n / (n + t²)

I is the regularised incomplete beta function and n the degrees of freedom. Its continued fraction
(Abramowitz and Stegun, 26.5.8) is evaluated by the method of Lentz. The quantile is found by
bisection, which cannot fail: the left side falls from one to zero as t grows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from untold.errors import UntoldError

__all__ = ["MeanInterval", "mean_interval", "t_quantile"]

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
