"""The sign-flip test by hand and by brute force; pairs of systems seed by seed."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.lab.statistics import (
    EXACT_UP_TO,
    SignPatterns,
    compare_seeds,
    mean_interval,
    sign_flip_test,
)

WHOLE = st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=9)


def brute_force(differences) -> float:
    """The definition: every pattern of signs, in whole numbers."""
    real = abs(sum(differences))
    patterns = list(product((1, -1), repeat=len(differences)))
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in patterns]
    return sum(abs(each) >= real for each in sums) / len(patterns)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([0.7], 1.0),  # n = 1: either sign is as far from zero
        ([0.5, 0.25], 0.5),  # ++ and -- of four
        ([0.5, -0.5], 1.0),
        ([1.0, 2.0, 3.0], 0.25),  # +++ and --- of eight
        ([1.0, 1.0, -1.0], 1.0),  # a sum of one is the least there is
        ([3.0, 1.0, -1.0], 6 / 8),  # sums 3 and 5, and their negatives, but not 1
        ([0.0, 0.0, 0.0], 1.0),
        ([1.0] * 5, 2 / 32),
        ([1.0] * 6, 2 / 64),
    ],
)
def test_p_by_hand(differences, p):
    found = sign_flip_test(differences)
    assert found.p == p
    assert (found.patterns, found.is_exact) == (2 ** len(differences), True)


@given(WHOLE)
def test_p_is_that_of_all_patterns_also_with_ties_and_zeros(differences):
    assert sign_flip_test(differences).p == brute_force(differences)


@given(WHOLE, st.sampled_from([0.1, 1 / 3, 1e-9, 1e150, 1e308]))
def test_p_depends_neither_on_scale_nor_sign_nor_order(differences, scale):
    """Ties stay ties although tenths and thirds are rounded."""
    p = sign_flip_test(differences).p
    assert sign_flip_test([d / 6 * scale for d in differences]).p == p
    assert sign_flip_test([-d for d in differences]).p == p
    assert sign_flip_test(differences[::-1]).p == p
    assert 2 / 2 ** len(differences) <= p <= 1


def test_twenty_pairs_are_exact_and_twenty_one_are_drawn():
    assert sign_flip_test([1.0] * EXACT_UP_TO).p == 2 / 2**20
    drawn = sign_flip_test([1.0] * 21, SignPatterns(999, seed=3))
    assert (drawn.p, drawn.patterns, drawn.is_exact) == (1 / 1000, 999, False)


def test_drawn_patterns_come_close_to_the_exact_p():
    """Zeros change no sum, so that the exact p of the longer list is known."""
    differences = [float(d) for d in np.random.default_rng(5).normal(0.3, 1, 12)]
    exact = sign_flip_test(differences)
    long = differences + [0.0] * 20
    found = sign_flip_test(long, SignPatterns(20_000, seed=1))
    assert exact.is_exact and not found.is_exact
    assert found.p == pytest.approx(exact.p, abs=4 * math.sqrt(exact.p * (1 - exact.p) / 20_000))
    assert sign_flip_test(long, SignPatterns(20_000, seed=1)) == found
    assert sign_flip_test(long, SignPatterns(20_000, seed=2)) != found


@pytest.mark.parametrize("wrong", [[], [math.nan], [1.0, math.inf]])
def test_differences_that_cannot_be_tested_are_refused(wrong):
    with pytest.raises(UntoldError, match="difference"):
        sign_flip_test(wrong)
    with pytest.raises(UntoldError, match="0 sign patterns test nothing"):
        sign_flip_test([1.0] * 30, SignPatterns(0))


def test_systems_are_paired_by_seed_not_by_order():
    found = compare_seeds({1: 30.0, 2: 31.0, 3: 35.0}, {3: 36.5, 1: 30.5, 2: 32.0})
    assert found.seeds == (1, 2, 3)
    assert found.differences == (0.5, 1.0, 1.5)
    assert found.interval == mean_interval([0.5, 1.0, 1.5])
    assert found.test.p == 0.25
    assert str(found) == "+1.00 [-0.24, +2.24] (95 %, n = 3), p = 0.2500 (sign-flip test, exact)"


def test_one_seed_has_a_difference_and_no_interval():
    found = compare_seeds({7: 30.0}, {7: 30.25})
    assert (found.differences, found.interval.low, found.test.p) == ((0.25,), None, 1.0)
    assert str(found) == "+0.25 (n = 1), p = 1.0000 (sign-flip test, exact)"


@given(st.dictionaries(st.integers(0, 99), st.floats(0, 100), min_size=1, max_size=8))
def test_a_system_does_not_differ_from_itself(scores):
    found = compare_seeds(scores, scores)
    assert (found.interval.mean, found.test.p) == (0.0, 1.0)
    if len(scores) > 1:
        assert (found.interval.low, found.interval.high) == (0.0, 0.0)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=2, max_size=8).map(
        lambda pairs: [dict(enumerate(side)) for side in zip(*pairs, strict=True)]
    )
)
def test_exchanged_systems_have_the_opposite_difference_and_the_same_p(sides):
    there, back = compare_seeds(*sides), compare_seeds(*sides[::-1])
    assert there.test.p == back.test.p
    assert there.interval.mean == pytest.approx(-back.interval.mean)
    assert there.interval.low == pytest.approx(-back.interval.high)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({1: 1.0, 2: 2.0}, {1: 1.0}, "the second system has no score of seed 2"),
        ({1: 1.0}, {1: 1.0, 3: 2.0}, "the first system has no score of seed 3"),
        ({}, {}, "give one at least"),
        ({1: math.nan}, {1: 1.0}, "score nan must be a number"),
        ({1: -1e308}, {1: 1e308}, "score inf must be a number"),
    ],
)
def test_seeds_that_do_not_fit_are_named(before, after, words):
    with pytest.raises(UntoldError, match=words):
        compare_seeds(before, after)
