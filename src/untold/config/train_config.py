"""Settings of training."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from untold.config.section import (
    BatchTokens,
    Beam,
    Count,
    CountOrZero,
    Factor,
    Fraction,
    Section,
    Seed,
    Share,
    Weight,
    as_tuple,
)
from untold.config.sequence_config import SequenceConfig

__all__ = ["TrainConfig"]


class TrainConfig(Section):
    """Controls a run. One update sees `accumulate` batches, summed over all processes."""

    seed: Seed = 1
    steps: Count = 100_000
    epochs: Count | None = None
    batch_tokens: BatchTokens = 4096
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    learning_rate: Annotated[float, Field(gt=0.0, le=100.0)] = 7e-4
    schedule: Literal["inverse_sqrt", "linear", "plateau", "constant"] = "inverse_sqrt"
    warmup: CountOrZero = 4000
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    plateau_patience: Count = 2
    min_learning_rate: Annotated[float, Field(ge=0.0, le=100.0)] = 1e-9
    betas: Annotated[tuple[Fraction, Fraction], BeforeValidator(as_tuple)] = (0.9, 0.98)
    epsilon: Annotated[float, Field(ge=1e-30, le=1.0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    clip: Weight = 1.0
    label_smoothing: Fraction = 0.1
    bow_weight: Weight = 0.5
    bow_window: Literal["causal", "paper", "strict"] = "causal"
    bow_reduction: Literal["sum", "mean"] = "sum"
    bow_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    bca_weight: Weight = 0.0
    ends_weight: Weight = 0.5
    lexicon_weight: Weight = 0.5
    word_prediction: Weight = 0.0
    word_prediction_steps: Literal["all", "first"] = "all"
    past_layer_weight: Weight = 1.0  # of the layers of model.backbone = "pfrnn"
    future_layer_weight: Weight = 1.0
    counterfactual: Share = 0.25
    losses: dict[str, Weight] = Field(default_factory=dict)  # of other packages: docs/losses.md
    auxiliary_start: CountOrZero = 0
    auxiliary_warmup: CountOrZero = 0
    separator_rate: Factor = 4.0
    freeze_backbone: bool = False
    log_every: Count = 50
    validate_every: Count = 1000
    validate_bleu: bool = True
    validate_beam: Beam = 1
    best_by: Literal["loss", "bleu"] = "bleu"
    patience: Count | None = None
    save_every: Count = 1000
    keep: Count = 5
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    timeout_minutes: Annotated[float, Field(ge=0.01, le=525_600.0)] = 30.0
    max_skipped: Count = 5
    sequence: SequenceConfig = SequenceConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        if self.best_by == "bleu" and not self.validate_bleu:
            raise ValueError('best_by = "bleu" needs validate_bleu: set best_by = "loss"')
        if self.schedule == "linear" and self.epochs:
            raise ValueError(
                f'schedule = "linear" falls to the last of steps ({self.steps}), and epochs '
                f"({self.epochs}) may end before: set steps alone"
            )
        if self.freeze_backbone and self.best_by == "bleu":
            raise ValueError(
                'with freeze_backbone no translation changes: set best_by = "loss", which is then '
                "that of the auxiliary losses"
            )
        if self.freeze_backbone and not (self.bow_weight or self.bca_weight):
            raise ValueError(
                "freeze_backbone leaves bow_weight and bca_weight to learn from: set one"
            )
        if self.freeze_backbone and self.sequence.is_on:
            raise ValueError(
                'with freeze_backbone no translation changes: set sequence.kind = "none"'
            )
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate {self.min_learning_rate:g} is above learning_rate "
                f"{self.learning_rate:g}: lower it"
            )
        return self
