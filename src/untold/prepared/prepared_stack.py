"""A stack of layers: its weights laid out for any number of rows, and its norms.

A program runs it sublayer by sublayer through torch. Few rows run in one call of a compiled kernel,
which reads each weight once; many rows need oneDNN's products and torch's threads.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.models.layers import ACTIVATIONS
from untold.models.transformer_parts import LayerParts, LinearWeight
from untold.native import load
from untold.prepared.layout_choice import LaidOut
from untold.prepared.linear_layouts import Apply, PanelLinear
from untold.prepared.native_stacks import NativeStack, StackLayer, StackShape

__all__ = ["PreparedNorm", "PreparedStack", "Program"]

_FEW = 8  # rows: the kernel reads weights of any size as fast as memory gives them
_SOME = 32  # rows: it is as fast as oneDNN where the weights are small
_FEW_THREADS = 2  # of torch, which are no faster than one of the kernel
_SMALL = 4_000_000  # numbers in all weights: calling torch takes longer than computing


class PreparedNorm(NamedTuple):
    """Holds what torch.layer_norm takes beside its input."""

    shape: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "PreparedNorm":
        """Takes what a module holds."""
        return cls(tuple(norm.normalized_shape), norm.weight, norm.bias, norm.eps)


class Program(NamedTuple):
    """Holds linear layers, laid out for about so many rows."""

    layers: list[tuple[Apply, ...]]  # those of each layer, in the order of use
    last: Apply  # the output layer, or the keys and values of the decoder


class PreparedStack:
    """The layers of an encoder or a decoder, and the linear layer behind them.

    Without a `last_norm` the norms of the sublayers come after them.
    """

    def __init__(
        self,
        layers: Sequence[LayerParts],
        last_norm: nn.LayerNorm | None,
        last: LinearWeight,
        shape: StackShape,
        *,
        int8: bool,
    ) -> None:
        self._parts, self._last_module, self._shape = list(layers), last_norm, shape
        weights = [each for own in layers for each in own.linears]
        self._size = sum(each.weight.numel() for each in weights)
        self._linears = LaidOut([*weights, last], int8=int8)
        self._programs: dict[int, Program] = {}
        self._native: NativeStack | None = None
        self.norms = [[PreparedNorm.of(norm) for norm in own.norms] for own in layers]
        self.last_norm = None if last_norm is None else PreparedNorm.of(last_norm)
        self._activate = ACTIVATIONS[shape.activation]
        norms = [each for own in layers for each in own.norms]
        norms += [] if last_norm is None else [last_norm]
        # The kernel knows layers whose norms are alike.
        self._is_common = bool(layers) and len({norm.eps for norm in norms}) == 1

    def before(self, x: Float[Tensor, "r d"], norm: PreparedNorm) -> Float[Tensor, "r d"]:
        """Applies the norm of a sublayer to what it reads, if norms come before."""
        return x if self.last_norm is None else torch.layer_norm(x, *norm)

    def after(self, x: Float[Tensor, "r d"], norm: PreparedNorm) -> Float[Tensor, "r d"]:
        """Applies the norm of a sublayer to the sum that it leaves, if norms come after."""
        return torch.layer_norm(x, *norm) if self.last_norm is None else x

    def feed_forward(
        self, x: Float[Tensor, "r d"], linears: tuple[Apply, ...], norm: PreparedNorm
    ) -> Float[Tensor, "r d"]:
        """Runs the last sublayer of a layer, whose last two linear layers it is."""
        *_, inner, outer = linears
        hidden = self._activate(inner(self.before(x, norm)))
        return self.after(outer(hidden).add_(x), norm)

    def end(self, x: Float[Tensor, "r d"]) -> Float[Tensor, "r d"]:
        """Applies the norm after the last layer, if there is one."""
        return x if self.last_norm is None else torch.layer_norm(x, *self.last_norm)

    def for_rows(self, rows: int) -> Program:
        """Returns the linear layers in the layouts that are fastest for so many rows."""
        found = self._programs.get(rows)
        if found is None:
            *flat, last = self._linears.for_rows(rows)
            each = len(self._parts[0].linears) if self._parts else 1
            layers = [tuple(flat[k : k + each]) for k in range(0, len(flat), each)]
            found = self._programs[rows] = Program(layers, last)
        return found

    def whole(self, rows: int) -> NativeStack | None:
        """Returns the kernel that runs all layers at once, where that is faster; else None."""
        kernels, small = load(), self._size <= _SMALL
        if kernels is None or not self._is_common or rows > (_SOME if small else _FEW):
            return None
        if not small and torch.get_num_threads() > _FEW_THREADS:
            return None
        if self._native is None:
            found = self._linears.in_panels()
            if found is None:
                return None
            panels = iter(cast("list[PanelLinear]", found))
            layers = [
                StackLayer([next(panels) for _ in own.linears], own.norms) for own in self._parts
            ]
            self._native = NativeStack(kernels, layers, self._last_module, self._shape)
        return self._native
