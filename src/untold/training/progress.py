"""The progress of a run, which is saved with every checkpoint, and early stopping."""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from untold.config import TrainConfig

_FORMER = {"window", "plateau", "reductions"}  # of older versions


@dataclass(frozen=True)
class Validation:
    """Scores on the validation corpus: negative log-likelihood per token, and BLEU if wanted."""

    loss: float
    bleu: float | None = None

    def criterion(self, config: TrainConfig) -> float:
        """Returns the number by which models are compared: more is better."""
        return self.bleu if config.best_by == "bleu" and self.bleu is not None else -self.loss


@dataclass(frozen=True)
class UnloggedSums:
    """The sums over the updates since the last log line, which the next line is a mean of."""

    tokens: int = 0
    all_tokens: int = 0  # with those of skipped updates
    seconds: float = 0.0
    parts: dict[str, list[float]] = field(default_factory=dict)  # one sum for each process


@dataclass(frozen=True)
class Progress:
    """Holds everything but weights and optimizer that the rest of a run depends on."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # the first batch of the epoch that was not used yet
    tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0  # updates in a row that were skipped because they were not finite
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # validations since the best one
    validated: int = 0  # the step of the last validation
    unlogged: UnloggedSums = field(default_factory=UnloggedSums)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Progress":
        """Reads what `as_json` returned, now or in an older version."""
        sums = UnloggedSums(**values.get("unlogged", {}))
        known = {name: value for name, value in values.items() if name not in _FORMER}
        return cls(**known | {"unlogged": sums})

    def as_json(self) -> dict[str, Any]:
        """Returns a plain dictionary."""
        return asdict(self)


def after_validation(
    progress: Progress, validation: Validation, config: TrainConfig
) -> tuple[Progress, bool]:
    """Returns the new progress, and True if this model is the best so far; NaN never is."""
    progress = replace(progress, validated=progress.step)
    value = validation.criterion(config)
    if math.isfinite(value) and (progress.best is None or value > progress.best):
        return replace(progress, best=value, best_step=progress.step, stale=0), True
    return replace(progress, stale=progress.stale + 1), False


def is_over(progress: Progress, config: TrainConfig) -> bool:
    """Decides whether all updates or epochs are done, or the run stops early."""
    return (
        progress.step >= config.steps
        or (config.epochs is not None and progress.epoch >= config.epochs)
        or early_stopping(progress, config)
    )


def early_stopping(progress: Progress, config: TrainConfig) -> bool:
    """Decides whether patience has run out: the last validations found no better model."""
    return config.patience is not None and progress.stale >= config.patience
