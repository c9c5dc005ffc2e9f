"""Layouts of a linear layer's weight: one product, in the forms that a CPU computes at best.

    plain        as it was trained; torch packs it again in every call
    transposed   what a product with few rows reads fastest
    packed       oneDNN's own blocks: fastest for large weights, but dear to call
    panels       for few rows: our own kernel reads 32 outputs at a time
    int8         8-bit weights, and inputs that are rounded to 8 bits as they come (oneDNN)

Which of the others is best depends on the shape, the number of rows and the machine, so it is
measured: see layout_choice.py. They differ in rounding alone; only int8 rounds weights.
"""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from untold.native import load
from untold.native.library import Linear

__all__ = [
    "FLOAT_LAYOUTS",
    "INT8",
    "LAYOUTS",
    "PANELS",
    "Apply",
    "LinearWeight",
    "PanelLinear",
    "has_int8",
]

Apply = Callable[[Tensor], Tensor]  # from rows (r i) to rows (r o)

INT8, PANELS = "int8", "panels"
_PANEL = 32  # outputs, as in linear.c
_LARGEST, _MIDDLE = 127.0, 128  # of 8-bit weights; and the number that stands for an input of zero


@dataclass(frozen=True)
class LinearWeight:
    """Holds the weight of a linear layer, and its bias if it has one."""

    weight: Float[Tensor, "o i"]
    bias: Float[Tensor, " o"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Returns the widths of outputs and inputs."""
        outputs, inputs = self.weight.shape
        return outputs, inputs


def has_int8() -> bool:
    """Tells if torch multiplies 8-bit numbers here, without cutting off large sums."""
    names = ("qlinear_prepack", "qlinear_pointwise")
    if not all(hasattr(torch.ops.onednn, name) for name in names):
        return False
    largest = LinearWeight(torch.ones(16, 64))
    try:
        sums = _int8(largest)(torch.ones(2, 64))
    except RuntimeError:
        return False
    return torch.allclose(sums, torch.full((2, 16), 64.0), rtol=1e-3)


def _plain(layer: LinearWeight) -> Apply:
    weight, bias = layer.weight, layer.bias
    return lambda x: F.linear(x, weight, bias)


def _transposed(layer: LinearWeight) -> Apply:
    weight, bias = layer.weight.t().contiguous(), layer.bias
    if bias is None:
        return lambda x: torch.mm(x, weight)
    return lambda x: torch.addmm(bias, x, weight)


def _packed(layer: LinearWeight) -> Apply:
    # No number of rows is named: blocks for one row, with which a search begins, are slow for more.
    operations, bias = torch.ops.mkldnn, layer.bias
    weight = operations._reorder_linear_weight(layer.weight.contiguous(), None)
    multiply = operations._linear_pointwise.default
    return lambda x: multiply(x, weight, bias, "none", [], "")


def _int8(layer: LinearWeight) -> Apply:
    """Rounds each output's weights, and each row of inputs, to 8 bits on a scale of their own.

    A row by itself: so a sentence's translation does not depend on what it is batched with.
    """
    operations = torch.ops.onednn
    scales = (layer.weight.abs().amax(1) / _LARGEST).clamp(min=1e-12)
    rounded = (layer.weight / scales[:, None]).round().to(torch.int8)
    zeros = torch.zeros(len(scales), dtype=torch.long)
    scales /= _LARGEST  # of the inputs
    packed = operations.qlinear_prepack(rounded, None)
    multiply, bias = operations.qlinear_pointwise.default, layer.bias
    if bias is None:
        bias = torch.zeros(())
    half_up, output = torch.tensor(_MIDDLE + 0.5), torch.float32

    def apply(x: Tensor) -> Tensor:
        largest = torch.linalg.vector_norm(x, math.inf, dim=1, keepdim=True).clamp_(min=1e-12)
        small = torch.addcdiv(half_up, x, largest, value=_LARGEST).to(torch.uint8)
        sums = multiply(
            small, 1.0, _MIDDLE, packed, scales, zeros, None, 1.0, 0, output, "none", [], ""
        )
        return torch.addcmul(bias, sums, largest)

    return apply


class PanelLinear:
    """A linear layer of our own kernel."""

    def __init__(self, layer: LinearWeight) -> None:
        kernels = load()
        assert kernels is not None
        self._multiply, (self.outputs, inputs) = kernels.multiply, layer.shape
        padded = F.pad(layer.weight, (0, 0, 0, -self.outputs % _PANEL))
        panels = padded.view(-1, _PANEL, inputs).transpose(1, 2).contiguous()
        bias = None if layer.bias is None else layer.bias.detach().clone()
        self._kept = panels, bias  # the structure points into them
        self.structure = Linear(
            self.outputs, inputs, panels.data_ptr(), None if bias is None else bias.data_ptr()
        )
        self._address = ctypes.addressof(self.structure)

    def __call__(self, x: Float[Tensor, "r i"]) -> Float[Tensor, "r o"]:
        """Multiplies rows by the weight and adds the bias."""
        x, rows = x.contiguous(), len(x)
        y = x.new_empty(rows, self.outputs)
        self._multiply(self._address, x.data_ptr(), y.data_ptr(), rows, 0)
        return y


LAYOUTS: dict[str, Callable[[LinearWeight], Apply]] = {
    "plain": _plain,
    "transposed": _transposed,
    "packed": _packed,
    PANELS: PanelLinear,
    INT8: _int8,
}


def _float_layouts() -> tuple[str, ...]:
    """Names the layouts that there are here: torch may lack oneDNN, or our kernels a compiler."""
    operations, found = torch.ops.mkldnn, ["transposed", "plain"]
    names = ("_reorder_linear_weight", "_linear_pointwise")
    if torch.backends.mkldnn.is_available() and all(hasattr(operations, name) for name in names):
        found.append("packed")
    if load() is not None:
        found.append(PANELS)
    return tuple(found)


FLOAT_LAYOUTS = _float_layouts()
