"""The interface that every sequence-to-sequence backbone implements.

    encode(ids, mask)              -> Source           once a sentence
    decode(source, prefix)         -> Decoded          all target positions (training, scoring)
    start(source, beams)           -> state            an empty decoder state
    step(source, last, state)      -> Decoded, state   one more position, from the cache
    finish(readout)                -> readout          after past and future joined it
    output_embedding()             -> (v o) matrix     one row for each target token
    output_layer()                 -> OutputLayer      readouts to logits
    parts()                        -> TransformerParts of a Transformer; None for others
    blocks()                       -> modules          that shards of a model gather one by one

Decoding lays hypotheses out as (b, n): n beams of each of b sentences. A backbone treats the n
beams of a sentence as n queries over one Source, so that the source is never copied n times.
A decoder state is immutable: `step` returns a new one, and a search reorders or drops hypotheses
only by `state.select(rows)`, where rows index the flattened (b n) hypotheses.

The parts of a Transformer in the order of their use, whoever built and named its modules.

A backbone that can describe itself so (`Backbone.parts`) is laid out for translation by `prepared`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.config.model import ModelConfig
from untold.errors import UntoldError


@dataclass(frozen=True)
class LinearWeight:
    """Holds the weight of a linear layer, and its bias if it has one."""

    weight: Float[Tensor, "o i"]
    bias: Float[Tensor, " o"] | None = None

    @classmethod
    def of(cls, *layers: nn.Linear) -> "LinearWeight":
        """Joins layers that read the same input: their outputs follow each other."""
        if len(layers) == 1:
            return cls(layers[0].weight, layers[0].bias)
        weight = torch.cat([each.weight for each in layers])
        return cls(weight, torch.cat([_bias(each) for each in layers]))

    @property
    def shape(self) -> tuple[int, int]:
        """Returns the widths of outputs and inputs."""
        outputs, inputs = self.weight.shape
        return outputs, inputs


def _bias(layer: nn.Linear) -> Float[Tensor, " o"]:
    return layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias


class LayerParts(NamedTuple):
    """Holds the parts of one layer.

    linears   encoder: qkv, out, inner, outer; decoder: qkv, out, query, cross_out, inner, outer
    norms     one for each sublayer, applied before it, or after it where nothing follows the stack
    """

    linears: Sequence[LinearWeight]
    norms: Sequence[nn.LayerNorm]

    @classmethod
    def of(cls, linears: Sequence[nn.Linear], places: Sequence[nn.Module]) -> "LayerParts":
        """Takes the weights of modules, and those of some places that are norms."""
        norms = [each for each in places if isinstance(each, nn.LayerNorm)]
        return cls([LinearWeight.of(each) for each in linears], norms)


def as_norm(module: nn.Module) -> nn.LayerNorm | None:
    """Returns the module if it is a norm; others stand where there is none."""
    return module if isinstance(module, nn.LayerNorm) else None


@runtime_checkable
class TokenEmbedding(Protocol):
    """Maps tokens and their positions to vectors."""

    def __call__(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Embeds sentences from their beginning."""
        ...

    def at(self, ids: Int[Tensor, " r"], position: int) -> Float[Tensor, "r d"]:
        """Embeds tokens that all stand at one position."""
        ...


def check_positions(length: int, longest: int) -> None:
    """Refuses a side of so many tokens, if the positions of a model end before."""
    if length > longest:
        raise UntoldError(
            f"{length} tokens with all that the model adds: its positions end at {longest}: "
            "divide the text, or lower data.max_tokens and decode.max_length"
        )


class SourceFrame(NamedTuple):
    """Says what an encoder reads around a source, such as language codes."""

    insert: Callable[
        [Int[Tensor, "b i"], Bool[Tensor, "b i"]], tuple[Int[Tensor, "b f"], Bool[Tensor, "b f"]]
    ]  # returns ids and mask with the frame
    first: int  # where the source begins within it


@dataclass(frozen=True)
class TransformerParts:
    """Describes a Transformer. A stack without a last norm has the norms after its sublayers."""

    width: int  # of the states
    heads: int
    activation: str  # a key of layers.ACTIVATIONS
    encoder: Sequence[LayerParts]
    decoder: Sequence[LayerParts]
    encoder_norm: nn.LayerNorm | None
    decoder_norm: nn.LayerNorm | None
    keys_values: LinearWeight  # of the source, for all decoder layers
    source_embedding: TokenEmbedding
    target_embedding: TokenEmbedding
    aligning_layer: int  # of the decoder: its attention follows word alignments best
    frame: SourceFrame | None = None
    target_before: tuple[int, ...] = ()  # ids that the decoder reads before BOS
    longest: int | None = None  # positions of a side, with all that is read there


@dataclass(frozen=True)
class Widths:
    """Gives the widths of a backbone's vectors to the modules that are built on top of it."""

    source: int  # of Source.states
    state: int  # of Decoded.states
    output: int  # of the readout, which the output layer maps to logits


@dataclass(frozen=True)
class Source:
    """An encoded batch. It holds everything that depends on the source alone."""

    states: Float[Tensor, "b i d"]
    mask: Bool[Tensor, "b i"]  # True = real token
    memory: tuple[Tensor, ...] = ()  # for the backbone: keys and values, say; first axis b
    votes: tuple[Tensor, ...] = ()  # for the separator; first axis b
    copies: tuple[Tensor, ...] = ()  # for the copy layer; first axis b

    def select(self, rows: Int[Tensor, " r"]) -> "Source":
        """Returns the sentences at `rows`, in that order."""
        return Source(
            states=self.states.index_select(0, rows),
            mask=self.mask.index_select(0, rows),
            memory=tuple(part.index_select(0, rows) for part in self.memory),
            votes=tuple(part.index_select(0, rows) for part in self.votes),
            copies=tuple(part.index_select(0, rows) for part in self.copies),
        )

    def leaves(self) -> "Source":
        """Returns the same values without their history: gradients stop here, in `grad`."""

        def leaf(part: Tensor) -> Tensor:
            return part.detach().requires_grad_(part.requires_grad)

        memory, votes = tuple(map(leaf, self.memory)), tuple(map(leaf, self.votes))
        return Source(leaf(self.states), self.mask, memory, votes, tuple(map(leaf, self.copies)))

    def backward(self, leaves: "Source") -> None:
        """Takes the gradients that have gathered in its `leaves` further back, into the encoder."""
        pairs = zip(self._parts(), leaves._parts(), strict=True)
        reached = [(part, leaf.grad) for part, leaf in pairs if leaf.grad is not None]
        if reached:
            parts, gradients = zip(*reached, strict=True)
            torch.autograd.backward(parts, gradients)

    def _parts(self) -> tuple[Tensor, ...]:
        return (self.states, *self.memory, *self.votes, *self.copies)


@dataclass(frozen=True)
class Decoded:
    """The result of decoding: states after the last norm, and attention if it was asked for."""

    states: Float[Tensor, "b t d"]
    attention: Float[Tensor, "b t i"] | None = None  # sums to one over i
    readout: Float[Tensor, "b t o"] | None = None  # input of `finish`; None: the states themselves
    inner_states: Any = None  # for losses and pictures of one backbone: see InspectableBackbone


@runtime_checkable
class DecoderState(Protocol):
    """Holds what a decoder remembers of each hypothesis. It is immutable."""

    def select(self, rows: Int[Tensor, " r"]) -> "DecoderState":
        """Returns the memory of the hypotheses at `rows` of the flattened (b n)."""
        ...


@dataclass(frozen=True)
class OutputLayer:
    """Maps readouts to logits: logits = weight readout + bias."""

    weight: Float[Tensor, "v o"]
    bias: Float[Tensor, " v"] | None = None

    def logits(self, readout: Float[Tensor, "*b o"]) -> Float[Tensor, "*b v"]:
        """Computes the logits of all target tokens."""
        return F.linear(readout, self.weight, self.bias)

    def augmented(
        self, readout: Float[Tensor, "r o"]
    ) -> tuple[Float[Tensor, "r p"], Float[Tensor, "v p"]]:
        """Returns vectors and a matrix whose products are the logits, for the fused losses.

        A bias becomes one more column of the matrix, beside a column of ones.
        """
        if self.bias is None:
            return readout, self.weight
        ones = torch.ones_like(readout[:, :1])
        weight = torch.cat([self.weight, self.bias[:, None]], dim=1)
        return torch.cat([readout, ones], dim=1), weight


class Backbone(nn.Module, ABC):
    """A sequence-to-sequence model without its output layer.

    A subclass sets `config_class` and `widths`, and is built as
    `Subclass(config, (source_size, target_size), shared=one vocabulary for both)`.
    """

    config_class: ClassVar[type[ModelConfig]]
    widths: Widths
    output_bias: nn.Parameter | None

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("output_bias", None)

    @abstractmethod
    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Reads the source; padding (mask False) must not change anything."""

    @abstractmethod
    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Computes the states of all positions; position t reads prefix[:, :t+1] alone."""

    @abstractmethod
    def start(self, source: Source, beams: int) -> DecoderState:
        """Returns the state of `beams` empty hypotheses for each sentence."""

    @abstractmethod
    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, DecoderState]:
        """Reads one more token of every hypothesis; the beams lie on the t axis of Decoded."""

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """Completes the readout after past and future, if the model has them, were added."""
        return readout

    @abstractmethod
    def output_embedding(self) -> Float[Tensor, "v o"]:
        """Returns one vector for each target token; bags of words are scored with them."""

    def output_layer(self) -> OutputLayer:
        """Returns the map from readouts to logits: the output embedding, and a bias if any.

        `build_model` adds the parameter `output_bias` if the configuration asks for it. A backbone
        whose projection differs from the output embedding overrides this method.
        """
        return OutputLayer(self.output_embedding(), self.output_bias)

    def parts(self) -> TransformerParts | None:
        """Describes a Transformer by its parts, so that it can be prepared for translation."""
        return None

    def blocks(self) -> Iterable[nn.Module]:
        """Lists modules that are gathered one by one if processes share a model, inner ones first.

        Every pass must call each of them, in the same order, and use their parameters only so. What
        is not listed is gathered for the whole pass; layers of untold's Transformer need no list.
        """
        return ()


@runtime_checkable
class InspectableBackbone(Protocol):
    """A backbone that fills `Decoded.inner_states` and can say which words they stand for."""

    def guesses(self, inner_states: Any) -> dict[str, Float[Tensor, "b t o"]]:
        """Returns, by name, vectors that the output layer maps to guesses of each target word."""
        ...


def as_inspectable(backbone: Backbone) -> InspectableBackbone | None:
    """Returns the backbone itself if it has inner states to inspect, else None."""
    found: object = backbone  # a plain object: type checkers think that a Module has any attribute
    return found if isinstance(found, InspectableBackbone) else None
