"""Agreement: the published example, brute force, and what always holds."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.lab.ratings import measure_agreement, ordinal_alpha
from untold.lab.sheets import RaterFile, Rating

# Four observers and twelve units, from Krippendorff, "Computing Krippendorff's Alpha-Reliability".
OBSERVERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
UNITS = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), max_size=8)


def published_units() -> list[list[int]]:
    rows = [line.split() for line in OBSERVERS.strip().split("\n")]
    return [[int(cell) for cell in unit if cell != "."] for unit in zip(*rows, strict=True)]


def brute_force(units) -> float | None:
    """The definition: mean squared distance of pairs within units, and of any two ratings."""
    shared = [unit for unit in units if len(unit) > 1]
    ratings = [grade for unit in shared for grade in unit]

    def distance(one, other):
        low, high = sorted((one, other))
        between = sum(low <= grade <= high for grade in ratings)
        return (between - (ratings.count(low) + ratings.count(high)) / 2) ** 2

    n = len(ratings)
    expected = sum(distance(*pair) for pair in permutations(ratings, 2))
    if not expected:
        return None
    observed = sum(
        sum(distance(*pair) for pair in permutations(unit, 2)) / (len(unit) - 1) for unit in shared
    )
    return 1 - (observed / n) / (expected / (n * (n - 1)))


def test_the_published_example():
    assert ordinal_alpha(published_units()) == pytest.approx(0.815, abs=5e-4)


@given(UNITS)
def test_alpha_is_that_of_the_definition(units):
    expected = brute_force(units)
    assert ordinal_alpha(units) == (None if expected is None else pytest.approx(expected))


@given(UNITS)
def test_alpha_depends_on_the_order_of_grades_alone(units):
    stretched = [[{1: -7, 2: 0, 3: 1, 4: 50, 5: 51}[grade] for grade in unit] for unit in units]
    backwards = [[-grade for grade in unit[::-1]] for unit in units[::-1]]
    found = ordinal_alpha(units)
    for other in (stretched, backwards):
        assert ordinal_alpha(other) == (None if found is None else pytest.approx(found))


@pytest.mark.parametrize(
    ("units", "alpha"),
    [
        ([], None),
        ([[3], [4]], None),  # nothing was rated twice
        ([[3, 3], [3, 3]], None),  # nothing to agree on
        ([[1, 1], [5, 5]], 1.0),
        ([[1, 5], [5, 1]], -0.5),  # worse than chance: 1 - 1 / (2 * 2 * 2 / (4 * 3))
    ],
)
def test_small_cases(units, alpha):
    assert ordinal_alpha(units) == (None if alpha is None else pytest.approx(alpha))


def rater(name, **rows):
    ratings = {row: Rating(quality, over, under) for row, (quality, over, under) in rows.items()}
    return RaterFile(name, ratings, 0, ())


def test_marks_agree_by_pairs_of_raters():
    found = measure_agreement(
        [
            rater("a", r1=(5, True, False), r2=(1, False, False), r3=(2, True, True)),
            rater("b", r1=(5, True, True), r2=(1, False, False)),
            rater("c", r1=(5, False, True)),
        ]
    )
    assert found.translations == 2
    assert found.alpha == 1.0
    assert found.over == 2 / 4  # of r1: a and b, not a and c, not b and c; of r2: a and b
    assert found.under == 2 / 4


def test_one_rater_agrees_with_nobody():
    found = measure_agreement([rater("a", r1=(5, True, False))])
    assert (found.translations, found.alpha, found.over, found.under) == (0, None, None, None)
