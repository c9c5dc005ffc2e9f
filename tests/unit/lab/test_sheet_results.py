"""Means, differences and tests over sentences, by hand."""

import pytest

from untold.errors import UntoldError
from untold.lab.ratings import aggregate_ratings
from untold.lab.sheets import KeyRow, RaterFile, Rating, SheetKey
from untold.lab.statistics import SignPatterns, mean_interval, sign_flip_test


def key(sentences, systems=("one", "two")):
    rows = {
        f"r{line}-{system}": KeyRow(system, line, "")
        for line in range(1, sentences + 1)
        for system in systems
    }
    return SheetKey("s1", tuple(systems), rows)


def rater(grades, over=(), under=()):
    """Grades by (line, system); over and under are sets of such places."""
    ratings = {
        f"r{line}-{system}": Rating(grade, (line, system) in over, (line, system) in under)
        for (line, system), grade in grades.items()
    }
    return RaterFile("r.csv", ratings, 0, ())


def count(key, *raters):
    return aggregate_ratings(key, raters, SignPatterns(999, 1))


def test_one_rater_by_hand():
    grades = {
        (1, "one"): 2,
        (1, "two"): 4,
        (2, "one"): 3,
        (2, "two"): 4,
        (3, "one"): 1,
        (3, "two"): 4,
    }
    results = count(
        key(3), rater(grades, over={(1, "one")}, under={(1, "one"), (2, "one"), (3, "two")})
    )
    one, two = results.systems
    assert (one.name, one.ratings, one.over, one.under) == ("one", 3, 1 / 3, 2 / 3)
    assert one.quality == mean_interval([2.0, 3.0, 1.0])
    assert (two.quality.mean, two.over, two.under) == (4.0, 0.0, 1 / 3)
    (pair,) = results.pairs
    assert (pair.first, pair.second) == ("one", "two")
    assert pair.quality.interval == mean_interval([2.0, 1.0, 3.0])
    assert pair.quality.test == sign_flip_test([2.0, 1.0, 3.0])
    assert pair.over.interval.mean == pytest.approx(-1 / 3)
    assert pair.under.interval == mean_interval([-1.0, -1.0, 1.0])
    assert results.rows == 6


def test_raters_are_averaged_within_a_sentence_before_anything_else():
    """A second rater who says the same makes no interval narrower and no p smaller."""
    grades = {
        (line, system): 1 + (line * size) % 5
        for line in range(1, 8)
        for system, size in (("one", 2), ("two", 3))
    }
    alone, twice = count(key(7), rater(grades)), count(key(7), rater(grades), rater(grades))
    for before, after in zip(alone.systems, twice.systems, strict=True):
        assert after.quality == before.quality and after.ratings == 2 * before.ratings
    assert alone.pairs == twice.pairs
    assert twice.agreement.alpha == 1.0 and alone.agreement.alpha is None


def test_a_strict_rater_of_one_system_alone_does_not_count_against_it():
    """Pairs are differences within a rater, so that raters may be of different strictness."""
    strict = rater({(1, "one"): 1, (2, "one"): 1, (2, "two"): 2})
    kind = rater({(1, "one"): 4, (1, "two"): 5, (2, "two"): 5})
    (pair,) = count(key(2), strict, kind).pairs
    assert pair.quality.interval.mean == 1.0


def test_sentences_that_nobody_rated_in_both_are_left_out():
    results = count(key(3), rater({(1, "one"): 3, (2, "two"): 4}))
    assert results.pairs == ()
    assert [system.quality.n for system in results.systems] == [1, 1]
    assert results.systems[0].quality.low is None


def test_many_sentences_are_tested_by_drawn_patterns():
    grades = {(line, s): g for line in range(1, 41) for s, g in (("one", 2), ("two", 3 + line % 2))}
    (pair,) = count(key(40), rater(grades)).pairs
    assert (pair.quality.test.p, pair.quality.test.is_exact) == (1 / 1000, False)
    assert pair.over.test.p == 1.0


def test_three_systems_make_three_pairs():
    systems = ("a", "b", "c")
    grades = {(1, system): grade for grade, system in enumerate(systems, 1)}
    results = count(key(1, systems), rater(grades))
    assert [(p.first, p.second, p.quality.interval.mean) for p in results.pairs] == [
        ("a", "b", 1.0),
        ("a", "c", 2.0),
        ("b", "c", 1.0),
    ]


def test_a_system_without_ratings_is_named():
    with pytest.raises(UntoldError, match="nobody has rated a translation of two in sheet s1"):
        count(key(2), rater({(1, "one"): 3}))
