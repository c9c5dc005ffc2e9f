"""Several models as one: p(y_t | y_<t, x) = mean over models of p_m(y_t | y_<t, x)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.decoding.searchable import Scorable, Searchable
from untold.errors import UntoldError
from untold.models.seq2seq import Step

__all__ = ["Ensemble", "Member"]


@runtime_checkable
class Member(Searchable, Scorable, Protocol):
    """What an ensemble is made of."""

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """One row for each target token."""
        ...


@dataclass(frozen=True)
class _Several:
    """The sources, or the states, of all members."""

    parts: tuple[Any, ...]

    def select(self, rows: Int[Tensor, " r"]) -> "_Several":
        return _Several(tuple(part.select(rows) for part in self.parts))


@dataclass(frozen=True)
class _Outputs:
    """What all members made of the given targets."""

    parts: tuple[Any, ...]
    attention: Float[Tensor, "b t i"] | None
    assignments: Float[Tensor, "b t i g"] | None
    copying: Float[Tensor, "b t i"] | None


class Ensemble:
    """Searched and scored like a single model. Its logits are log-probabilities."""

    def __init__(self, members: Sequence[Member]) -> None:
        sizes = [member.output_embedding().shape[0] for member in members]
        if not members:
            raise UntoldError("an ensemble of no models: give one or more")
        if len(set(sizes)) > 1:
            raise UntoldError(
                f"an ensemble of models with target vocabularies of {sizes} tokens: "
                "give models that share one vocabulary"
            )
        self.members = tuple(members)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> _Several:
        """Every member reads the source."""
        return _Several(tuple(member.encode(ids, mask) for member in self.members))

    def start(self, source: _Several, beams: int) -> _Several:
        """Every member's empty memory."""
        parts = zip(self.members, source.parts, strict=True)
        return _Several(tuple(member.start(part, beams) for member, part in parts))

    def step(
        self,
        source: _Several,
        last: Int[Tensor, "b n"],
        state: _Several,
        *,
        attention: bool = False,
    ) -> Step:
        """The mean of what the members predict."""
        steps = [
            member.step(part, last, memory, attention=attention)
            for member, part, memory in zip(self.members, source.parts, state.parts, strict=True)
        ]
        return Step(
            _mean_log_softmax([step.logits for step in steps]),
            _Several(tuple(step.state for step in steps)),
            _mean([step.attention for step in steps]),
            _mean([step.assignments for step in steps]),
            _mean([step.copying for step in steps]),
        )

    def __call__(
        self,
        source_ids: Int[Tensor, "b i"],
        source_mask: Bool[Tensor, "b i"],
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
    ) -> _Outputs:
        """All positions at once."""
        outputs = tuple(
            member(source_ids, source_mask, prefix, attention=attention) for member in self.members
        )
        return _Outputs(
            outputs,
            _mean([output.attention for output in outputs]),
            _mean([output.assignments for output in outputs]),
            _mean([output.copying for output in outputs]),
        )

    def scores(
        self, outputs: _Outputs, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]
    ) -> Float[Tensor, "r v"]:
        """The mean of what the members predict at chosen positions."""
        parts = zip(self.members, outputs.parts, strict=True)
        return _mean_log_softmax([member.scores(part, rows, steps) for member, part in parts])

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Side by side; an ensemble can so be a member itself."""
        return torch.cat([member.output_embedding() for member in self.members], dim=1)


def _mean_log_softmax(logits: Sequence[Float[Tensor, "*b v"]]) -> Float[Tensor, "*b v"]:
    log_probs = [part.log_softmax(-1, dtype=torch.float32) for part in logits]
    total = log_probs[0]
    for part in log_probs[1:]:
        total = torch.logaddexp(total, part)
    return total - math.log(len(log_probs))


def _mean(weights: Sequence[Tensor | None]) -> Tensor | None:
    """Of the weights of those members that have them."""
    known = [part for part in weights if part is not None]
    return torch.stack(known).mean(0) if known else None
