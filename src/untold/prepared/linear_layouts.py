"""Layouts of a linear layer's weight: one product, in the forms that a CPU computes at best.

    plain        as it was trained; torch packs it again in every call
    transposed   what a product with few rows reads fastest
    packed       oneDNN's own blocks: fastest for large weights, but dear to call
    int8         8-bit weights, and inputs that are rounded to 8 bits as they come

Which of the first three is best depends on the shape, the number of rows and the machine, so it is
measured: see layout_choice.py. They differ in rounding alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

__all__ = ["FLOAT_LAYOUTS", "INT8", "LAYOUTS", "Apply", "LinearWeight", "has_int8"]

Apply = Callable[[Tensor], Tensor]  # from rows (r i) to rows (r o)

INT8 = "int8"
_LARGEST_INT8 = 127.0
_ENGINES = ("fbgemm", "onednn")  # in the order of preference; qnnpack lacks wide accumulators


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
    """Tells if torch can multiply 8-bit numbers on this machine."""
    return any(engine in torch.backends.quantized.supported_engines for engine in _ENGINES)


def _plain(layer: LinearWeight, rows: int) -> Apply:  # noqa: ARG001
    weight, bias = layer.weight, layer.bias
    return lambda x: F.linear(x, weight, bias)


def _transposed(layer: LinearWeight, rows: int) -> Apply:  # noqa: ARG001
    weight, bias = layer.weight.t().contiguous(), layer.bias
    if bias is None:
        return lambda x: torch.mm(x, weight)
    return lambda x: torch.addmm(bias, x, weight)


def _packed(layer: LinearWeight, rows: int) -> Apply:
    operations, bias = torch.ops.mkldnn, layer.bias
    weight = operations._reorder_linear_weight(layer.weight.contiguous(), rows)
    multiply = operations._linear_pointwise.default
    return lambda x: multiply(x, weight, bias, "none", [], "")


def _int8(layer: LinearWeight, rows: int) -> Apply:  # noqa: ARG001
    scales = (layer.weight.abs().amax(1) / _LARGEST_INT8).clamp(min=1e-12)
    rounded = (layer.weight / scales[:, None]).round().to(torch.int8)
    zeros = torch.zeros(len(scales), dtype=torch.long)
    weight = torch._make_per_channel_quantized_tensor(rounded, scales.double(), zeros, 0)
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = next(
        engine for engine in _ENGINES if engine in torch.backends.quantized.supported_engines
    )
    try:  # the engine decides how the weight is packed; the product follows the weight
        packed = torch.ops.quantized.linear_prepack(weight, layer.bias)
    finally:
        torch.backends.quantized.engine = before
    multiply = torch.ops.quantized.linear_dynamic.default
    return lambda x: multiply(x, packed, False)


LAYOUTS: dict[str, Callable[[LinearWeight, int], Apply]] = {
    "plain": _plain,
    "transposed": _transposed,
    "packed": _packed,
    INT8: _int8,
}


def _float_layouts() -> tuple[str, ...]:
    """Names the layouts that torch offers here; oneDNN is missing from some builds."""
    operations = torch.ops.mkldnn
    names = ("_reorder_linear_weight", "_linear_pointwise")
    if torch.backends.mkldnn.is_available() and all(hasattr(operations, name) for name in names):
        return ("transposed", "plain", "packed")
    return ("transposed", "plain")


FLOAT_LAYOUTS = _float_layouts()
