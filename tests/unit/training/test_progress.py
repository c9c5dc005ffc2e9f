"""Best, patience and plateaus: what a validation changes."""

import math

import pytest

from untold.config import TrainConfig
from untold.training.progress import Progress, Validation, after_validation, early_stopping, is_over


def follow(values, **settings):
    """The standing after each BLEU score, one every ten steps; and whether each is best."""
    config, progress, history = TrainConfig(**settings), Progress(), []
    for number, value in enumerate(values, start=1):
        progress = Progress.from_json(progress.as_json() | {"step": 10 * number})
        progress, is_best = after_validation(progress, Validation(1.0, value), config)
        history.append((progress, is_best))
    return history


def test_only_a_higher_score_is_best():
    history = follow([1.0, 3.0, 3.0, 2.0, 4.0])
    assert [is_best for _, is_best in history] == [True, True, False, False, True]
    assert [progress.best_step for progress, _ in history] == [10, 20, 20, 20, 50]
    assert [progress.stale for progress, _ in history] == [0, 0, 1, 2, 0]
    assert history[-1][0].best == 4.0
    assert history[-1][0].validated == 50


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_never_best(bad):
    history = follow([bad, 2.0, bad, 1.0])
    assert [is_best for _, is_best in history] == [False, True, False, False]
    assert history[-1][0].best == 2.0


def test_a_lower_loss_is_best_where_losses_count():
    config = TrainConfig(best_by="loss")
    progress, _ = after_validation(Progress(step=1), Validation(3.0, 10.0), config)
    assert progress.best == -3.0
    progress, is_best = after_validation(progress, Validation(2.0, 5.0), config)
    assert is_best and progress.best == -2.0
    progress, is_best = after_validation(progress, Validation(math.nan, 50.0), config)
    assert not is_best and progress.best == -2.0


def test_a_run_is_over_by_steps_epochs_or_patience():
    assert is_over(Progress(step=10), TrainConfig(steps=10))
    assert not is_over(Progress(step=9), TrainConfig(steps=10))
    assert is_over(Progress(epoch=2), TrainConfig(epochs=2))
    assert not is_over(Progress(epoch=1), TrainConfig(epochs=2))
    assert is_over(Progress(stale=3), TrainConfig(patience=3))
    assert not is_over(Progress(stale=2), TrainConfig(patience=3))
    assert not is_over(Progress(stale=99, epoch=99), TrainConfig())


def test_early_stopping_waits_for_as_many_validations_as_patience_says():
    history = follow([3.0, 2.0, 1.0, 4.0, 1.0, 1.0], patience=2)
    stops = [early_stopping(progress, TrainConfig(patience=2)) for progress, _ in history]
    assert stops == [False, False, True, False, False, True]
    assert not any(early_stopping(progress, TrainConfig()) for progress, _ in history)
