"""Settings of training, and of training on whole translations and their rewards."""

import difflib
import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

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
)
from untold.registry import metric_has, metrics_with

_CALLABLE = re.compile(r"[\w.]+:\w+")


class SequenceConfig(Section):
    """Mixes a loss over whole translations, with weight `mix`, into the loss of the reference.

    `kind` is the estimator; "none" trains on the reference alone.
    """

    kind: Literal["none", "reinforce", "mrt", "actor_critic"] = "none"
    """The estimator of the gradient; none trains on the reference alone."""
    mix: Share = 0.5
    """The share of this loss; the losses on the reference have the rest."""
    samples: Beam = 5
    """Translations of each sentence."""
    reference: bool = False
    """Whether the reference is one of the translations (mrt)."""
    reward: str = "bleu"
    """What grades translations: a metric with sentence scores, or package.module:function."""
    aligner: str | None = None
    """The path of the aligner that the reward cdr counts by."""
    baseline: Literal["mean", "self_critical", "none"] = "mean"
    """What is subtracted from the reward of a sample (reinforce)."""
    alpha: Factor = 0.005
    """How sharp the distribution over the translations is (mrt)."""
    discriminator: bool = False
    """Whether a discriminator learns the reward, and the model learns from its estimates."""
    discriminator_warmup: CountOrZero = 0
    """Updates in which the discriminator alone learns from samples."""

    @property
    def is_on(self) -> bool:
        """Returns False if training uses the reference alone."""
        return self.kind != "none" and self.mix > 0

    @field_validator("reward")
    @classmethod
    def _is_a_reward(cls, value: str) -> str:
        # Every saved model has the default, and to look at it would import sacreBLEU.
        is_default = value == cls.model_fields["reward"].default
        if is_default or _CALLABLE.fullmatch(value) or metric_has(value, "sentence_scores"):
            return value
        known = metrics_with("sentence_scores")
        close = difflib.get_close_matches(value, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(
            f"unknown reward; {hint}known: {', '.join(known)}, or package.module:function"
        )

    @model_validator(mode="after")
    def _parts_fit(self) -> "SequenceConfig":
        if self.kind == "none":
            return self
        if self.reward == "cdr" and self.aligner is None:
            raise ValueError('reward = "cdr" counts by an aligner: give its path as aligner')
        if self.kind == "mrt":
            if self.samples + self.reference < 2:
                raise ValueError("mrt compares translations: set samples to 2 or more")
            return self
        if self.reference:
            raise ValueError(
                f"{self.kind} is right in the mean over samples of the model alone: set "
                'reference = false, or kind = "mrt"'
            )
        if self.kind == "reinforce" and self.baseline == "mean" and self.samples < 2:
            raise ValueError(
                'baseline = "mean" compares samples: set samples to 2 or more, or another baseline'
            )
        return self


class TrainConfig(Section):
    """Controls a run. One update sees `accumulate` batches, summed over all processes."""

    seed: Seed = 1
    """The seed of weights, order and dropout."""
    steps: Count = 100_000
    """Updates after which the run ends."""
    epochs: Count | None = None
    """Passes over the corpus after which the run ends, if steps do not end it before."""
    batch_tokens: BatchTokens = 4096
    """The most tokens of a batch on either side, padding counted."""
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Batches of one update, over all processes."""
    learning_rate: Annotated[float, Field(gt=0.0, le=100.0)] = 7e-4
    """The highest learning rate, which the warm-up leads to."""
    schedule: Literal["inverse_sqrt", "linear", "constant"] = "inverse_sqrt"
    """How the learning rate falls after the warm-up; linear reaches 0 after the last of steps."""
    warmup: CountOrZero = 4000
    """Updates in which the learning rate rises to its highest."""
    clip: Weight = 1.0
    """The norm that gradients are clipped to; 0 does not clip."""
    label_smoothing: Fraction = 0.1
    """The share of the loss that wants all words to be equally likely."""
    bow_weight: Weight = 0.5
    """The weight of the bags of words of past and future; 0 leaves them out."""
    bow_window: Literal["causal", "paper", "strict"] = "causal"
    """Which words are in a bag; docs/past-future.md has the table."""
    bow_reduction: Literal["sum", "mean"] = "sum"
    """Whether the loss of a bag is the sum over its words, as in the paper, or their mean."""
    bow_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    """The share of steps, drawn at random, whose bags are computed."""
    vocabulary_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """The share of the words outside a batch over which bags and lexicon are normalised."""
    bca_weight: Weight = 0.0
    """The weight of the content agreement of capsules and decoder states."""
    ends_weight: Weight = 0.5
    """The weight of the loss that wants no past at the first word and no future at the end."""
    lexicon_weight: Weight = 0.5
    """The weight of the losses of lexicon and links, if the separator has a lexicon."""
    word_prediction: Weight = 0.0
    """The weight of predicting the words to come from the decoder state, without capsules."""
    counterfactual: Share = 0.25
    """The share of sentences that are also read with a span deleted."""
    losses: dict[str, Weight] = Field(default_factory=dict)
    """The weights of losses of other packages, by name: docs/losses.md."""
    auxiliary_start: CountOrZero = 0
    """The update after which the auxiliary losses begin."""
    separator_rate: Factor = 4.0
    """The learning rate of the separator, as a factor of learning_rate."""
    freeze_backbone: bool = False
    """Whether the separator alone learns, and translations stay as they are."""
    log_every: Count = 50
    """Updates between two lines of the log."""
    validate_every: Count = 1000
    """Updates between two validations."""
    best_by: Literal["loss", "bleu"] = "bleu"
    """What chooses the best model: the validation loss, or BLEU of greedy translations."""
    patience: Count | None = None
    """Validations without a new best after which the run ends; unset, it goes on."""
    save_every: Count = 1000
    """Updates between two checkpoints."""
    keep: Count = 5
    """Checkpoints that are kept."""
    precision: Literal["fp32", "bf16", "auto"] = "fp32"
    """The precision of training; bf16 needs hardware for it, auto takes bf16 where it is faster."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train; auto takes a GPU if there is one."""
    shard: bool = False
    """Whether processes share weights and optimizer (FSDP), for models too large for one device."""
    sequence: SequenceConfig = SequenceConfig()
    """Training on whole translations and their rewards."""

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
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
