"""Runs whole encoders and decoder steps in one call each, for few rows.

There the weights are read once and computing takes less time than calling: a decoder step of a
small model is sixty calls of torch.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.native.library import Kernels, Layers, Norm, Room, Shape
from untold.prepared.hypothesis_memory import HypothesisMemory
from untold.prepared.linear_layouts import PanelLinear
from untold.prepared.ragged_source import RaggedRows, RaggedSource
from untold.prepared.row_attention import AttentionShape, native_past, native_sources

__all__ = ["NativeStack", "StackLayer", "StackShape"]

_ACTIVATIONS = ("relu", "swish", "gelu")  # in the order of kernels.h


class StackShape(NamedTuple):
    """Says what all layers of a stack have in common."""

    attention: AttentionShape
    activation: str  # a key of ACTIVATIONS


class StackLayer(NamedTuple):
    """Holds the parts of one layer in the order of their use."""

    linears: Sequence[PanelLinear]
    norms: Sequence[nn.LayerNorm]


class NativeStack:
    """The layers of an encoder or a decoder, and its last norm.

    Without a last norm those of the sublayers come after them. All norms have the same epsilon.
    """

    def __init__(
        self,
        kernels: Kernels,
        layers: Sequence[StackLayer],
        last: nn.LayerNorm | None,
        shape: StackShape,
    ) -> None:
        self._kernels, (self._width, self._heads, *_) = kernels, shape.attention
        self._linears = [layer.linears for layer in layers]  # the structures point into them
        self._norms: list[Tensor] = []
        self._shape = Shape(
            width=self._width,
            heads=self._heads,
            layers=len(layers),
            eps=layers[0].norms[0].eps,
            norms_after=last is None,
            activation=_ACTIVATIONS.index(shape.activation),
        )
        rows = [
            ([each.structure for each in layer.linears], [self._norm(each) for each in layer.norms])
            for layer in layers
        ]
        self._layers = Layers.of(rows)
        self._last = Norm() if last is None else self._norm(last)
        self._widest = max(each.outputs for layer in layers for each in layer.linears)

    def decode(
        self,
        x: Float[Tensor, "r d"],
        memory: HypothesisMemory,
        place: int,
        source: RaggedSource,
        explained: int = -1,
    ) -> tuple[Float[Tensor, "r d"], Float[Tensor, "r i"] | None]:
        """Reads one token a row, given as an embedding that is lost; returns the states.

        Also returns the mean shares of the layer `explained`, if there is one.
        """
        rows, length = len(x), source.attended.longest
        states = torch.empty_like(x)
        means = x.new_empty(rows, length) if explained >= 0 else None
        room, _kept = self._room(rows, max(memory.length, length))
        self._kernels.decode(
            ctypes.byref(self._shape),
            self._layers,
            ctypes.byref(self._last),
            ctypes.byref(native_past(memory, place)),
            ctypes.byref(native_sources(source, source.attended, rows)),
            ctypes.byref(room),
            x.data_ptr(),
            states.data_ptr(),
            rows,
            None if means is None else means.data_ptr(),
            length,
            explained,
        )
        return states, means

    def encode(self, x: Float[Tensor, "r d"], rows: RaggedRows) -> Float[Tensor, "r d"]:
        """Encodes sentences, given as embeddings that are lost."""
        states = torch.empty_like(x)
        room, _kept = self._room(len(x), rows.longest)
        self._kernels.encode(
            ctypes.byref(self._shape),
            self._layers,
            ctypes.byref(self._last),
            rows.starts.data_ptr(),
            len(rows),
            ctypes.byref(room),
            x.data_ptr(),
            states.data_ptr(),
        )
        return states

    def _room(self, rows: int, longest: int) -> tuple[Room, Tensor]:
        """Finds memory for one call, and returns it with what keeps it alive."""
        sizes = rows * self._width, rows * self._widest, rows * self._width, self._heads * longest
        numbers = torch.empty(sum(sizes))
        first = numbers.data_ptr()
        places = [first + 4 * sum(sizes[:part]) for part in range(4)]
        return Room(*places), numbers

    def _norm(self, norm: nn.LayerNorm) -> Norm:
        weight, bias = norm.weight.detach().clone(), norm.bias.detach().clone()
        self._norms += weight, bias
        return Norm(weight.data_ptr(), bias.data_ptr())
