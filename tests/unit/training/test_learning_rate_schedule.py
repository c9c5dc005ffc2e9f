"""Learning rates, by formula."""

import math

import pytest

from untold.config import TrainConfig
from untold.training.trainer import learning_rate


def rate(step, **settings):
    return learning_rate(TrainConfig(**{"learning_rate": 0.8} | settings), step)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "linear", "constant"])
def test_warm_up_is_linear_and_reaches_the_peak(schedule):
    rates = [rate(step, schedule=schedule, warmup=100) for step in range(1, 101)]
    assert rates == pytest.approx([0.8 * step / 100 for step in range(1, 101)])


@pytest.mark.parametrize("step", [101, 400, 10_000])
def test_inverse_square_root(step):
    assert rate(step, schedule="inverse_sqrt", warmup=100) == pytest.approx(
        0.8 * math.sqrt(100 / step)
    )
    assert rate(step, schedule="constant", warmup=100) == 0.8


def test_inverse_square_root_without_warm_up():
    assert rate(1, warmup=0) == pytest.approx(0.8)
    assert rate(9, warmup=0) == pytest.approx(0.8 / 3)


def test_it_is_the_schedule_of_the_transformer():
    """d^-0.5 min(step^-0.5, step warmup^-1.5), with the peak that this has at `warmup`."""
    d, warmup = 512, 4000
    for step in (1, 17, 3999, 4000, 4001, 100_000):
        expected = d**-0.5 * min(step**-0.5, step * warmup**-1.5)
        settings = {"learning_rate": d**-0.5 * warmup**-0.5, "warmup": warmup}
        assert rate(step, **settings) == pytest.approx(expected)


def test_linear_falls_evenly_to_nothing_after_the_last_step():
    rates = [rate(step, schedule="linear", warmup=4, steps=8) for step in range(4, 10)]
    assert rates == pytest.approx([0.8, 0.64, 0.48, 0.32, 0.16, 1e-9])


def test_a_linear_schedule_needs_to_know_its_end():
    with pytest.raises(ValueError, match=r"falls to the last of steps \(101\), and epochs \(2\)"):
        rate(1, schedule="linear", steps=101, epochs=2)


def test_a_run_that_ends_in_its_warm_up_has_only_that():
    assert rate(3, schedule="linear", warmup=100, steps=3) == pytest.approx(0.8 * 3 / 100)
