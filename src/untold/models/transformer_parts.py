"""The parts of a Transformer in the order of their use, whoever built and named its modules.

A backbone that can describe itself so (`Backbone.parts`) is laid out for translation by `prepared`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError

__all__ = [
    "LayerParts",
    "LinearWeight",
    "SourceFrame",
    "TokenEmbedding",
    "TransformerParts",
    "as_norm",
    "check_positions",
]


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
