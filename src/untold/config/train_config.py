"""Settings of training and of the search for translations."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from untold.config.section import Count, CountOrZero, Fraction, Section, Weight, as_tuple
from untold.config.sequence_config import SequenceConfig

__all__ = ["DecodeConfig", "TrainConfig"]


class TrainConfig(Section):
    """The course of a run. One update sees `accumulate` batches, on however many processes."""

    seed: CountOrZero = 1
    steps: Count = 100_000
    epochs: Count | None = None
    batch_tokens: Count = 4096
    accumulate: Count = 1
    learning_rate: Annotated[float, Field(gt=0.0)] = 7e-4
    schedule: Literal["inverse_sqrt", "linear", "plateau", "constant"] = "inverse_sqrt"
    warmup: CountOrZero = 4000
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    plateau_patience: Count = 2
    min_learning_rate: Annotated[float, Field(ge=0.0)] = 1e-9
    betas: Annotated[tuple[Fraction, Fraction], BeforeValidator(as_tuple)] = (0.9, 0.98)
    epsilon: Annotated[float, Field(gt=0.0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    clip: Annotated[float, Field(ge=0.0)] = 1.0
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
    counterfactual: Annotated[float, Field(ge=0.0, le=1.0)] = 0.25
    losses: dict[str, Weight] = Field(default_factory=dict)  # of other packages: docs/losses.md
    auxiliary_start: CountOrZero = 0
    auxiliary_warmup: CountOrZero = 0
    separator_rate: Annotated[float, Field(gt=0.0)] = 4.0
    freeze_backbone: bool = False
    log_every: Count = 50
    validate_every: Count = 1000
    validate_bleu: bool = True
    validate_beam: Count = 1
    best_by: Literal["loss", "bleu"] = "bleu"
    patience: Count | None = None
    save_every: Count = 1000
    keep: Count = 5
    threads: Count | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    timeout_minutes: Annotated[float, Field(gt=0.0)] = 30.0
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
        return self


class DecodeConfig(Section):
    """How translations are searched for."""

    beam: Count = 4
    length_penalty: Annotated[float, Field(ge=0.0)] = 0.6
    coverage_penalty: Weight = 0.0
    coverage_source: Literal["attention", "past"] = "attention"
    nbest: Count = 1
    min_length: CountOrZero = 0
    max_length: Count = 256
    max_ratio: Annotated[float, Field(gt=0.0)] = 3.0
    no_repeat_ngram: CountOrZero = 0
    sample: bool = False
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    top_k: CountOrZero = 0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    seed: CountOrZero = 1
    batch_tokens: Count = 4096

    @model_validator(mode="after")
    def _nbest_fits(self) -> "DecodeConfig":
        if not self.sample and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam at least as wide, not {self.beam}")
        return self
