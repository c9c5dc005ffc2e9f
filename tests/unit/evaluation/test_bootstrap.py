"""The paired bootstrap: against all resamples there are, and against what is known."""

import itertools
import math

import numpy as np
import pytest

from untold.errors import UntoldError
from untold.evaluation.bootstrap import paired_bootstrap


def test_it_comes_near_all_resamples_there_are():
    before, after = [0.2, 0.9, 0.5, 0.4, 0.8], [0.5, 0.8, 0.7, 0.35, 1.0]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    means = [sum(draw) / 5 for draw in itertools.product(differences, repeat=5)]
    found = paired_bootstrap(before, after, 20_000, 1)
    assert (found.before, found.after) == pytest.approx((0.56, 0.67))
    exact = sum(mean <= 0 for mean in means) / len(means)
    assert 0.02 < exact < 0.2
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))
    assert found.low == pytest.approx(np.quantile(means, 0.025), abs=0.02)
    assert found.high == pytest.approx(np.quantile(means, 0.975), abs=0.02)


def test_what_is_always_better_and_what_is_the_same():
    assert paired_bootstrap([0.1] * 9, [0.2] * 9, 99, 1).p == pytest.approx(1 / 100)
    assert paired_bootstrap([0.1] * 9, [0.1] * 9, 99, 1).p == 1.0
    assert paired_bootstrap([0.2] * 9, [0.1] * 9, 99, 1).p == 1.0


def test_pairs_count_not_the_spread_between_sentences():
    """Every sentence gains a little, though sentences differ much more than that."""
    before = [k / 50 for k in range(50)]
    after = [score + 0.001 * (1 + k % 3) for k, score in enumerate(before)]
    found = paired_bootstrap(before, after, 200, 3)
    assert found.p == pytest.approx(1 / 201)
    assert 0.001 < found.low < found.high < 0.003


def test_the_seed_decides_and_chunks_do_not(monkeypatch):
    before, after = [0.1, 0.5, 0.3] * 5, [0.4, 0.2, 0.5] * 5
    one = paired_bootstrap(before, after, 101, 1)
    assert one == paired_bootstrap(before, after, 101, 1) != paired_bootstrap(before, after, 101, 2)
    monkeypatch.setattr("untold.metrics.significance._CELLS_AT_ONCE", 70)
    assert paired_bootstrap(before, after, 101, 1) == one
    assert "difference +0.0667 [" in str(one) and "101 samples" in str(one)


def test_the_interval_is_that_of_means_over_drawn_sentences():
    before, after = [0.1, 0.5, 0.3, 0.9, 0.2], [0.4, 0.2, 0.5, 0.8, 0.7]
    draws = np.random.default_rng(4).integers(5, size=(60, 5))
    means = [sum(after[k] - before[k] for k in row) / 5 for row in draws.tolist()]
    found = paired_bootstrap(before, after, 60, 4)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
    assert found.p == (1 + sum(mean <= 0 for mean in means)) / 61


@pytest.mark.parametrize(("before", "after"), [([], []), ([0.1], [0.1, 0.2])])
def test_scores_that_are_no_pairs_are_refused(before, after):
    with pytest.raises(UntoldError, match="a paired bootstrap needs one of each system"):
        paired_bootstrap(before, after, 9, 1)


def test_no_samples_are_refused():
    with pytest.raises(UntoldError, match="0 samples test nothing"):
        paired_bootstrap([0.1], [0.2], 0, 1)
