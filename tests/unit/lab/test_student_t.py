"""Quantiles of Student's t against printed tables, and intervals by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.lab.statistics import mean_interval, t_quantile

# The printed table: degrees of freedom, and the quantile of 97.5 %.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 19: 2.093, 30: 2.042}
TABLE |= {40: 2.021, 60: 2.000, 120: 1.980}


def test_quantiles_are_those_of_the_printed_table_and_fall():
    assert {degrees: round(t_quantile(degrees), 3) for degrees in TABLE} == TABLE
    values = [t_quantile(degrees) for degrees in range(1, 1000)]
    assert values == sorted(values, reverse=True) and len(set(values)) == len(values)
    assert t_quantile(10**6) == pytest.approx(1.959966, abs=1e-6)


def test_the_density_integrates_to_the_probability():
    """An independent way: Simpson's rule over the density, for degrees without a closed form."""
    for degrees in (3, 7, 30, 31, 200):
        t = t_quantile(degrees)
        front = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
        front /= math.sqrt(degrees * math.pi)
        steps = 2000
        heights = [
            front * (1 + (t * k / steps) ** 2 / degrees) ** (-(degrees + 1) / 2)
            for k in range(steps + 1)
        ]
        area = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
        assert 0.5 + area * t / steps / 3 == pytest.approx(0.975, abs=1e-7)


def test_an_interval_by_hand():
    found = mean_interval([1.0, 2.0, 3.0])
    assert (found.n, found.mean, found.deviation) == (3, 2.0, 1.0)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)
    assert str(found) == "2.00 [-0.48, 4.48] (95 %, n = 3)"


def test_one_value_has_no_interval_and_equal_ones_have_an_empty_one():
    one = mean_interval([4.5])
    assert (one.mean, one.deviation, one.low, one.high) == (4.5, None, None, None)
    same = mean_interval([2.0, 2.0, 2.0])
    assert (same.deviation, same.low, same.high) == (0.0, 2.0, 2.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12), st.floats(-1e3, 1e3))
def test_an_interval_moves_with_its_values(values, shift):
    found, moved = mean_interval(values), mean_interval([value + shift for value in values])
    for name in ("mean", "low", "high"):
        expected = getattr(found, name) + shift
        assert getattr(moved, name) == pytest.approx(expected, rel=1e-6, abs=1e-5)
    assert found.high >= found.mean >= found.low


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "give one at least"),
        ([1.0, math.nan], "score nan must be a number up to 1e\\+100"),
        ([math.inf], "score inf must be a number"),
        ([1e308, 1e308], "score 1e\\+308 must"),
    ],
)
def test_mistakes_are_named(values, words):
    with pytest.raises(UntoldError, match=words):
        mean_interval(values)
