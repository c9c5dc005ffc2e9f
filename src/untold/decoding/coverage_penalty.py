"""The coverage penalty (Wu et al., 2016, eq. 14): a finished translation pays for what it left out.

    score(y, x) = log p(y | x) / length_penalty(y)  +  beta * sum_i log min(covered_i, 1)

over the words i of the source; its EOS is none. With attention, covered_i is what all steps, the
end's too, have given to word i. A model with past and future knows by itself: covered_i is then all
of the word that is not FUTURE when the end is said. The penalty is never positive, so that the
bounds of the search hold with it.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from untold.categories import FUTURE
from untold.config import DecodeConfig
from untold.corpus.vocabulary import EOS
from untold.errors import UntoldError

__all__ = ["CoveragePenalty", "Covered", "Shown", "coverage_penalty"]

_LEAST = 1e-6  # of a word: what was never looked at costs much, but not everything


@runtime_checkable
class Shown(Protocol):
    """What a model shows of its steps."""

    @property
    def attention(self) -> Tensor | None:
        """(b t i): sums to one over i."""
        ...

    @property
    def assignments(self) -> Tensor | None:
        """(b t i g): shares of past, future, redundant."""
        ...


@dataclass(frozen=True)
class CoveragePenalty:
    """How coverage is read from a model."""

    beta: float
    by_attention: bool  # False: by past and future

    @classmethod
    def of(cls, config: DecodeConfig) -> "CoveragePenalty | None":
        """None without a penalty: nothing is then to be kept."""
        if not config.coverage_penalty:
            return None
        return cls(config.coverage_penalty, config.coverage_source == "attention")

    def of_steps(self, shown: Shown) -> Float[Tensor, "b t i"]:
        """What each step has covered: by itself with attention, or else by its time."""
        if self.by_attention:
            if shown.attention is None:
                raise UntoldError(
                    "the model shows no attention to measure coverage by: set "
                    "decode.coverage_penalty to 0"
                )
            return shown.attention
        if shown.assignments is None:
            raise UntoldError(
                'decode.coverage_source = "past" needs a model that separates past and future: '
                'set it to "attention", or decode.coverage_penalty to 0'
            )
        return 1 - shown.assignments[..., FUTURE]

    def of_targets(self, shown: Shown, mask: Bool[Tensor, "b t"]) -> Float[Tensor, "b i"]:
        """What whole targets have covered at their ends."""
        steps = self.of_steps(shown)
        if self.by_attention:
            return (steps * mask[..., None]).sum(1)
        return steps[torch.arange(len(steps), device=mask.device), mask.sum(1) - 1]


@dataclass(frozen=True)
class Covered:
    """What each of n hypotheses has covered of its source."""

    rule: CoveragePenalty
    words: Bool[Tensor, "b i"]
    amounts: Float[Tensor, "b n i"]

    @classmethod
    def nothing(
        cls, rule: CoveragePenalty, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"], beams: int
    ) -> "Covered":
        """Before the first step."""
        amounts = torch.zeros(len(ids), beams, ids.shape[1], device=ids.device)
        return cls(rule, mask & (ids != EOS), amounts)

    def after(self, step: Shown) -> "Covered":
        """With what one more step has covered."""
        amounts = self.rule.of_steps(step).float()
        if self.rule.by_attention:
            amounts = self.amounts + amounts
        return replace(self, amounts=amounts)

    def select(self, still: Int[Tensor, " s"], rows: Int[Tensor, " r"]) -> "Covered":
        """Of the sentences `still`, the hypotheses at `rows` of the flattened (b n)."""
        kept = self.amounts.flatten(0, 1)[rows]
        return Covered(self.rule, self.words[still], kept.view(len(still), -1, kept.shape[-1]))

    def penalties(self, beams: Int[Tensor, "b m"]) -> Float64[Tensor, "b m"]:
        """Of candidates that continue these beams of each sentence."""
        each = coverage_penalty(self.amounts, self.words[:, None], self.rule.beta)
        return each.gather(1, beams)


def coverage_penalty(
    covered: Float[Tensor, "*b i"], words: Bool[Tensor, "*#b i"], beta: float
) -> Float64[Tensor, "*b"]:
    """beta * sum over the words of log min(covered, 1); never positive."""
    logs = covered.double().clamp(_LEAST, 1.0).log()
    return beta * logs.masked_fill(~words, 0.0).sum(-1)
