"""Settings of sequence-level training: sampler, reward and gradient estimator."""

import difflib
import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from untold.config.section import Beam, CountOrZero, Factor, Section, Share, Temperature
from untold.metric_registry import metric_has, metrics_with

__all__ = ["SequenceConfig"]

_CALLABLE = re.compile(r"[\w.]+:\w+")


class SequenceConfig(Section):
    """Mixes a loss over whole translations, with weight `mix`, into the loss of the reference.

    `kind` is the estimator; "none" trains on the reference alone.
    """

    kind: Literal["none", "reinforce", "mrt", "actor_critic"] = "none"
    """The estimator of the gradient; none trains on the reference alone."""
    mix: Share = 0.5
    """The share of this loss; the losses on the reference have the rest."""
    sampler: Literal["sample", "nbest"] = "sample"
    """Whether translations are drawn at random, or are the best of a beam (mrt)."""
    samples: Beam = 5
    """Translations of each sentence."""
    temperature: Temperature = 1.0
    """The temperature that samples are drawn at."""
    max_ratio: Factor = 2.0
    """A sample has at most this many times the tokens of its source, and 10 more."""
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
    d_judge: Annotated[int, Field(ge=1, le=8192)] = 64
    """The width of critic and discriminator."""
    judge_rate: Factor = 1.0
    """The learning rate of critic and discriminator, as a factor of train.learning_rate."""

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
        if self.sampler != "sample" or self.reference:
            raise ValueError(
                f"{self.kind} is right in the mean over samples of the model alone: set sampler = "
                '"sample" and reference = false, or kind = "mrt"'
            )
        if self.kind == "reinforce" and self.baseline == "mean" and self.samples < 2:
            raise ValueError(
                'baseline = "mean" compares samples: set samples to 2 or more, or another baseline'
            )
        return self
