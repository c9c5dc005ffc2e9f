"""An ensemble averages the probabilities of its members: p(y_t | ...) = mean_m p_m(y_t | ...)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.decoding.hypotheses import Scorable, Searchable
from untold.errors import UntoldError
from untold.models.signals import Signals, SignalsMixin, Step


@runtime_checkable
class Member(Searchable, Scorable, Protocol):
    """Describes a model that can be part of an ensemble."""

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Returns a matrix with one row for each target token."""
        ...


@dataclass(frozen=True)
class _Several:
    """Holds the sources, or the states, of all members."""

    parts: tuple[Any, ...]

    def select(self, rows: Int[Tensor, " r"]) -> "_Several":
        return _Several(tuple(part.select(rows) for part in self.parts))


@dataclass(frozen=True)
class _EnsembleOutputs(SignalsMixin[Tensor]):
    """Holds the outputs of all members for the given targets, and their mean signals."""

    parts: tuple[Any, ...]
    signals: Signals[Tensor]


class Ensemble:
    """Searches and scores several models as one; its logits are log-probabilities."""

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
        """Encodes the source with every member."""
        return _Several(tuple(member.encode(ids, mask) for member in self.members))

    def start(self, source: _Several, beams: int) -> _Several:
        """Creates every member's memory of empty hypotheses."""
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
        """Predicts the mean of the members' probabilities."""
        steps = [
            member.step(part, last, memory, attention=attention)
            for member, part, memory in zip(self.members, source.parts, state.parts, strict=True)
        ]
        return Step(
            _mean_log_softmax([step.logits for step in steps]),
            _Several(tuple(step.state for step in steps)),
            Signals.mean([step.signals for step in steps]),
        )

    def __call__(
        self,
        source_ids: Int[Tensor, "b i"],
        source_mask: Bool[Tensor, "b i"],
        prefix: Int[Tensor, "b t"],
        *,
        attention: bool = False,
    ) -> _EnsembleOutputs:
        """Predicts all positions at once with every member."""
        outputs = tuple(
            member(source_ids, source_mask, prefix, attention=attention) for member in self.members
        )
        return _EnsembleOutputs(outputs, Signals.mean([output.signals for output in outputs]))

    def outputs_of(self, member: Member, outputs: _EnsembleOutputs) -> Any:
        """Takes what one member has predicted."""
        return outputs.parts[self.members.index(member)]

    def scores(
        self, outputs: _EnsembleOutputs, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]
    ) -> Float[Tensor, "r v"]:
        """Averages the members' probabilities at chosen positions."""
        parts = zip(self.members, outputs.parts, strict=True)
        return _mean_log_softmax([member.scores(part, rows, steps) for member, part in parts])

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Concatenates the members' embeddings, so that an ensemble can be a member itself."""
        return torch.cat([member.output_embedding() for member in self.members], dim=1)


def _mean_log_softmax(logits: Sequence[Float[Tensor, "*b v"]]) -> Float[Tensor, "*b v"]:
    log_probs = [part.log_softmax(-1, dtype=torch.float32) for part in logits]
    total = log_probs[0]
    for part in log_probs[1:]:
        total = torch.logaddexp(total, part)
    return total - math.log(len(log_probs))
