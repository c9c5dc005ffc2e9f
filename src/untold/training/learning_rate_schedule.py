"""The learning-rate schedule, a pure function of the step."""

from untold.config import TrainConfig

__all__ = ["learning_rate"]


def learning_rate(config: TrainConfig, step: int, reductions: int = 0) -> float:
    """Computes the rate of update `step` (from 1): a linear warm-up to the peak, then the schedule.

    inverse_sqrt: peak * sqrt(warmup / step); linear: down to zero after the last of `steps`;
    plateau: peak * factor^reductions; constant: the peak.
    """
    if step <= config.warmup:
        return config.learning_rate * step / config.warmup
    if config.schedule == "inverse_sqrt":
        rate = config.learning_rate * (max(1, config.warmup) / step) ** 0.5
    elif config.schedule == "linear":
        rate = config.learning_rate * (config.steps + 1 - step) / (config.steps + 1 - config.warmup)
    elif config.schedule == "plateau":
        rate = config.learning_rate * config.plateau_factor**reductions
    else:
        rate = config.learning_rate
    return max(rate, config.min_learning_rate)
