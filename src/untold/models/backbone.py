"""The interface behind which every sequence-to-sequence backbone lives.

    encode(ids, mask)              -> Source       once per sentence
    decode(source, prefix)         -> Decoded      all target positions at once (training, scoring)
    start(source, beams)           -> state        an empty decoder memory
    step(source, last, state)      -> Decoded, state   one more position, from the cache

Decoding lays hypotheses out as (b, n): n beams of each of b sentences. A backbone sees the n beams
of a sentence as n queries over one Source, so that nothing of the source is ever copied n times.
Memory is a value: `step` returns a new state, and `state.select(rows)` is the one way in which a
search reorders or drops hypotheses; rows index the flattened (b n) hypotheses.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

__all__ = ["Backbone", "Decoded", "DecoderState", "Source", "Timeline", "Widths"]


@dataclass(frozen=True)
class Widths:
    """How wide a backbone's vectors are, for all that is built on top of it."""

    source: int  # of Source.states, which vote
    state: int  # of Decoded.states, which guide
    output: int  # of what the output embedding reads


@dataclass(frozen=True)
class Source:
    """An encoded batch: all about the source that no decoding step needs to compute again."""

    states: Float[Tensor, "b i d"]
    mask: Bool[Tensor, "b i"]  # True = real token
    memory: tuple[Tensor, ...] = ()  # the backbone's own, first axis b: keys and values, say
    votes: tuple[Tensor, ...] = ()  # the separator's own, first axis b
    copies: tuple[Tensor, ...] = ()  # the copy layer's own, first axis b

    def select(self, rows: Int[Tensor, " r"]) -> "Source":
        """The sentences at `rows`, in that order."""
        return Source(
            states=self.states.index_select(0, rows),
            mask=self.mask.index_select(0, rows),
            memory=tuple(part.index_select(0, rows) for part in self.memory),
            votes=tuple(part.index_select(0, rows) for part in self.votes),
            copies=tuple(part.index_select(0, rows) for part in self.copies),
        )


@dataclass(frozen=True)
class Timeline:
    """States of two layers, of what was said and of what is left, around each position."""

    after: Float[Tensor, "b t 2 h"]
    before: Float[Tensor, "b t 2 h"]


@dataclass(frozen=True)
class Decoded:
    """Decoder states after the last norm; attention, where asked for, sums to one over i.

    `readout` is what the output layer reads, before `Backbone.finish`; None: the states themselves.
    """

    states: Float[Tensor, "b t d"]
    attention: Float[Tensor, "b t i"] | None = None
    readout: Float[Tensor, "b t o"] | None = None
    timeline: Timeline | None = None  # of a backbone that has such layers


@runtime_checkable
class DecoderState(Protocol):
    """What a decoder remembers of each hypothesis. Immutable."""

    def select(self, rows: Int[Tensor, " r"]) -> "DecoderState":
        """The memory of the hypotheses at `rows` of the flattened (b n)."""
        ...


class Backbone(nn.Module, ABC):
    """A sequence-to-sequence model up to, but without, its output layer."""

    widths: Widths
    has_timeline = False

    @abstractmethod
    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Read the source; padding (mask False) changes nothing."""

    @abstractmethod
    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """States for all positions; position t sees prefix[:, :t+1] alone."""

    @abstractmethod
    def start(self, source: Source, beams: int) -> DecoderState:
        """The memory of `beams` empty hypotheses for each sentence."""

    @abstractmethod
    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, DecoderState]:
        """Read one more token of every hypothesis; the beams lie on the t axis of Decoded."""

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """What follows when past and future, if any, have joined the readout."""
        return readout

    def guesses(self, timeline: Timeline) -> dict[str, Float[Tensor, "b t o"]]:  # noqa: ARG002
        """By name: what is trained to guess each position's word, through the output embedding."""
        return {}

    @abstractmethod
    def output_embedding(self) -> Float[Tensor, "v o"]:
        """The matrix that turns what is read out into logits (tied to the target embedding)."""
