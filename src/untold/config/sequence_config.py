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
    mix: Share = 0.5
    sampler: Literal["sample", "nbest"] = "sample"
    samples: Beam = 5
    temperature: Temperature = 1.0
    max_ratio: Factor = 2.0
    reference: bool = False
    reward: str = "bleu"  # a metric with sentence scores, or package.module:function
    aligner: str | None = None  # the path of the aligner that cdr counts by
    baseline: Literal["mean", "self_critical", "none"] = "mean"
    alpha: Factor = 0.005
    discriminator: bool = False
    discriminator_warmup: CountOrZero = 0
    d_judge: Annotated[int, Field(ge=1, le=8192)] = 64
    judge_rate: Factor = 1.0

    @property
    def is_on(self) -> bool:
        """Returns False if training uses the reference alone."""
        return self.kind != "none" and self.mix > 0

    @field_validator("reward")
    @classmethod
    def _is_a_reward(cls, value: str) -> str:
        if _CALLABLE.fullmatch(value) or metric_has(value, "sentence_scores"):
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
