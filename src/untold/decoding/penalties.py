"""Length penalty and coverage penalty (Wu et al., 2016, eq. 14).

    score(y, x) = log p(y | x) / length_penalty(y)  +  beta * sum_i log min(covered_i, 1)

The sum goes over the words i of the source; its EOS is not a word. By attention, covered_i is the
attention weight that word i got from all steps, the one that predicts EOS among them. A model that
separates past and future knows it directly: covered_i is the share of the word that is not FUTURE
when EOS is predicted. The coverage penalty is never positive, so the search may stop a sentence by
bounds that leave it out.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from untold.config.decode import DecodeConfig
from untold.errors import UntoldError
from untold.models.signals import FUTURE, Signals

_MIN_COVERED = 1e-6  # bounds the penalty of a word that was never attended to

Length = TypeVar("Length", float, Tensor)


def length_penalty(length: Length, alpha: float) -> Length:
    """Computes ((5 + |y|) / 6)^alpha; |y| counts EOS, and alpha 0 means no penalty."""
    return ((5.0 + length) / 6.0) ** alpha


def coverage_penalty(
    covered: Float[Tensor, "*b i"], words: Bool[Tensor, "*#b i"], beta: float
) -> Float64[Tensor, "*b"]:
    """Computes beta * sum over the words of log min(covered, 1)."""
    logs = covered.double().clamp(_MIN_COVERED, 1.0).log()
    return beta * logs.masked_fill(~words, 0.0).sum(-1)


@dataclass(frozen=True)
class CoveragePenalty:
    """Says how much coverage counts and which signal measures it."""

    beta: float
    by_attention: bool  # False: by past and future

    @classmethod
    def of(cls, config: DecodeConfig) -> "CoveragePenalty | None":
        """Reads the settings; None means that there is no penalty."""
        if not config.coverage_penalty:
            return None
        return cls(config.coverage_penalty, config.coverage_source == "attention")

    def of_steps(self, signals: Signals) -> Float[Tensor, "b t i"]:
        """Returns the attention of each step, or else the share that is not FUTURE at each step."""
        if self.by_attention:
            if signals.attention is None:
                raise UntoldError(
                    "the model shows no attention to measure coverage by: set "
                    "decode.coverage_penalty to 0"
                )
            return signals.attention
        if signals.assignments is None:
            raise UntoldError(
                'decode.coverage_source = "past" needs a model that separates past and future: '
                'set it to "attention", or decode.coverage_penalty to 0'
            )
        return 1 - signals.assignments[..., FUTURE]

    def of_targets(self, signals: Signals, mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b i"]:
        """Returns how far whole targets cover their sources."""
        steps = self.of_steps(signals)
        if self.by_attention:
            return (steps * mask[..., None]).sum(1)
        return steps[torch.arange(len(steps), device=mask.device), mask.sum(1) - 1]


@dataclass(frozen=True)
class Covered:
    """Tracks how far each of n hypotheses has covered its source."""

    rule: CoveragePenalty
    words: Bool[Tensor, "b i"]
    amounts: Float[Tensor, "b n i"]

    @classmethod
    def nothing(cls, rule: CoveragePenalty, words: Bool[Tensor, "b i"], beams: int) -> "Covered":
        """Starts with empty hypotheses."""
        b, i = words.shape
        return cls(rule, words, torch.zeros(b, beams, i, device=words.device))

    def after(self, signals: Signals) -> "Covered":
        """Adds what one more step has covered."""
        amounts = self.rule.of_steps(signals).float()
        if self.rule.by_attention:
            amounts = self.amounts + amounts
        return replace(self, amounts=amounts)

    def select(self, live: list[int], rows: list[int]) -> "Covered":
        """Keeps the sentences `live`, with the hypotheses at `rows` of the flattened (b n)."""
        amounts = self.amounts.flatten(0, 1)[rows]  # (r i)
        return Covered(self.rule, self.words[live], amounts.unflatten(0, (len(live), -1)))

    def penalties(self) -> Float64[Tensor, "b n"]:
        """Computes what each hypothesis would lose by ending now."""
        return coverage_penalty(self.amounts, self.words[:, None], self.rule.beta)
