"""Quantiles of Student's t against printed tables, and intervals by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.lab.statistics import mean_interval, t_quantile

# Rows of the printed table: degrees of freedom, and the quantiles of these probabilities.
PROBABILITIES = (0.9, 0.95, 0.975, 0.99, 0.995)
TABLE = {
    1: (3.078, 6.314, 12.706, 31.821, 63.657),
    2: (1.886, 2.920, 4.303, 6.965, 9.925),
    3: (1.638, 2.353, 3.182, 4.541, 5.841),
    4: (1.533, 2.132, 2.776, 3.747, 4.604),
    5: (1.476, 2.015, 2.571, 3.365, 4.032),
    9: (1.383, 1.833, 2.262, 2.821, 3.250),
    19: (1.328, 1.729, 2.093, 2.539, 2.861),
    30: (1.310, 1.697, 2.042, 2.457, 2.750),
    120: (1.289, 1.658, 1.980, 2.358, 2.617),
}


@pytest.mark.parametrize("degrees", TABLE)
def test_quantiles_are_those_of_the_table(degrees):
    found = [round(t_quantile(p, degrees), 3) for p in PROBABILITIES]
    assert found == list(TABLE[degrees])


@settings(deadline=None, max_examples=50)
@given(st.floats(1e-6, 1 - 1e-6))
def test_one_and_two_degrees_have_a_closed_form(p):
    """T of one degree is Cauchy's; that of two has an algebraic quantile."""
    assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-6, abs=1e-9)
    closed = (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    assert t_quantile(p, 2) == pytest.approx(closed, rel=1e-6, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.001, 0.499), st.integers(1, 1000))
def test_quantiles_are_symmetric_and_fall_with_the_degrees(p, degrees):
    assert t_quantile(1 - p, degrees) == pytest.approx(-t_quantile(p, degrees), rel=1e-9)
    assert t_quantile(1 - p, degrees + 1) < t_quantile(1 - p, degrees)
    assert t_quantile(0.5, degrees) == pytest.approx(0, abs=1e-12)


def test_many_degrees_come_to_the_normal_distribution():
    assert t_quantile(0.975, 10**6) == pytest.approx(1.959966, abs=1e-5)


def test_the_density_integrates_to_the_probability():
    """An independent way: Simpson's rule over the density, for degrees without a closed form."""
    for degrees in (3, 7, 40):
        t = t_quantile(0.975, degrees)
        front = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
        front /= math.sqrt(degrees * math.pi)
        steps = 2000
        heights = [
            front * (1 + (t * k / steps) ** 2 / degrees) ** (-(degrees + 1) / 2)
            for k in range(steps + 1)
        ]
        area = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
        assert 0.5 + area * t / steps / 3 == pytest.approx(0.975, abs=1e-9)


def test_an_interval_by_hand():
    found = mean_interval([1.0, 2.0, 3.0])
    assert (found.n, found.mean, found.deviation) == (3, 2.0, 1.0)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)
    two = mean_interval([0.0, 2.0], level=0.9)
    assert two.high == pytest.approx(1 + 6.313752, abs=1e-5)


def test_one_value_has_no_interval_and_equal_ones_have_an_empty_one():
    one = mean_interval([4.5])
    assert (one.mean, one.deviation, one.low, one.high) == (4.5, None, None, None)
    same = mean_interval([2.0, 2.0, 2.0])
    assert (same.deviation, same.low, same.high) == (0.0, 2.0, 2.0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12), st.floats(-1e3, 1e3))
def test_an_interval_moves_with_its_values(values, shift):
    found, moved = mean_interval(values), mean_interval([value + shift for value in values])
    for name in ("mean", "low", "high"):
        expected = getattr(found, name) + shift
        assert getattr(moved, name) == pytest.approx(expected, rel=1e-6, abs=1e-5)
    assert mean_interval(values, 0.99).high >= found.high >= found.mean >= found.low


@pytest.mark.parametrize(
    ("values", "level", "words"),
    [
        ([], 0.95, "give one at least"),
        ([1.0, math.nan], 0.95, "score nan must be a number up to 1e\\+100"),
        ([math.inf], 0.95, "score inf must be a number"),
        ([1e308, 1e308], 0.95, "score 1e\\+308 must"),
        ([1.0, 2.0], 1.0, "level 1.0 of an interval must be between 0 and 1"),
        ([1.0, 2.0], 0.0, "level 0.0"),
        ([1.0, 2.0], math.nan, "level nan"),
    ],
)
def test_mistakes_are_named(values, level, words):
    with pytest.raises(UntoldError, match=words):
        mean_interval(values, level)


@pytest.mark.parametrize(("p", "degrees"), [(0.0, 3), (1.0, 3), (math.nan, 3), (0.9, 0)])
def test_quantiles_that_do_not_exist_are_refused(p, degrees):
    with pytest.raises(UntoldError, match="must be between 0 and 1, and the degrees one"):
        t_quantile(p, degrees)
