"""Layouts of a linear layer's weight: one product, in the forms that a CPU computes at best.

    transposed   as torch multiplies few rows best: for small weights, where calling is what costs
    panels       for few rows: our own kernel reads 32 outputs at a time, in one thread
    packed       oneDNN's own blocks: for many rows and large weights, in all threads
    int8         8-bit weights, and inputs that are rounded to 8 bits as they come (oneDNN)
    int8 panels  the same numbers by our own kernel, where the processor has 8-bit products

They differ in rounding alone; only int8 rounds weights. `choose_layout` knows which is fastest.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor

from untold.inference.kernels import Linear, load
from untold.models.backbone import LinearWeight

Apply = Callable[[Tensor], Tensor]  # from rows (r i) to rows (r o)

TRANSPOSED, PANELS, PACKED = "transposed", "panels", "packed"
INT8, INT8_PANELS = "int8", "int8 panels"
_PANEL, _GROUP = 32, 4  # outputs and inputs, as in linear.c and bytes.c
_LARGEST, _MIDDLE = 127.0, 128  # of 8-bit weights; and the number that stands for an input of zero


def has_int8() -> bool:
    """Tells if 8-bit numbers are multiplied here, by our kernel or by torch, without errors."""
    return BYTES == INT8_PANELS or has_onednn_int8()


@cache
def has_onednn_int8() -> bool:
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


def _rounded(layer: LinearWeight) -> tuple[Int8[Tensor, "o i"], Float[Tensor, " o"]]:
    """Rounds weights to 8 bits; returns them with the scales of their sums with rounded inputs."""
    scales = (layer.weight.detach().abs().amax(1) / _LARGEST).clamp(min=1e-12)
    rounded = (layer.weight.detach() / scales[:, None]).round().to(torch.int8)
    return rounded, scales / _LARGEST


def _int8(layer: LinearWeight) -> Apply:
    """Rounds each output's weights, and each row of inputs, to 8 bits on a scale of their own.

    A row by itself: so a sentence's translation does not depend on what it is batched with.
    """
    operations, (rounded, scales) = torch.ops.onednn, _rounded(layer)
    zeros = torch.zeros(len(scales), dtype=torch.long)
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

    def __init__(self, layer: LinearWeight, *, int8: bool = False) -> None:
        kernels = load()
        assert kernels is not None
        self._multiply, (self.outputs, inputs) = kernels.multiply, layer.shape
        bias = None if layer.bias is None else layer.bias.detach().clone()
        parts = _byte_panels(layer) if int8 else (None, None, None)
        panels = None if int8 else _float_panels(layer)
        self._kept = [panels, bias, *parts]  # the structure points into them
        addresses = [None if part is None else part.data_ptr() for part in self._kept]
        self.structure = Linear(self.outputs, inputs, *addresses)
        self._address = ctypes.addressof(self.structure)

    def __call__(self, x: Float[Tensor, "r i"]) -> Float[Tensor, "r o"]:
        """Multiplies rows by the weight and adds the bias."""
        x = x.contiguous()
        y = x.new_empty(len(x), self.outputs)
        self._multiply(self._address, x.data_ptr(), y.data_ptr(), len(x), 0)
        return y


def _float_panels(layer: LinearWeight) -> Float[Tensor, "p i o"]:
    """Lays 32 outputs after each other, input by input."""
    outputs, inputs = layer.shape
    padded = F.pad(layer.weight, (0, 0, 0, -outputs % _PANEL))
    return padded.view(-1, _PANEL, inputs).transpose(1, 2).contiguous()


def _byte_panels(layer: LinearWeight) -> tuple[Tensor, Tensor, Tensor]:
    """Returns rounded weights in groups of four inputs; scales; and sums of inputs of zero."""
    rounded, scales = _rounded(layer)
    outputs, inputs = layer.shape
    zeros = rounded.sum(1, dtype=torch.int32) * _MIDDLE
    padded = F.pad(rounded, (0, -inputs % _GROUP, 0, -outputs % _PANEL))
    panels = padded.view(-1, _PANEL, padded.shape[1] // _GROUP, _GROUP).transpose(1, 2)
    return panels.contiguous(), scales, zeros


LAYOUTS: dict[str, Callable[[LinearWeight], Apply]] = {
    TRANSPOSED: _transposed,
    PANELS: PanelLinear,
    PACKED: _packed,
    INT8: _int8,
    INT8_PANELS: partial(PanelLinear, int8=True),
}


def _float_layouts() -> tuple[str, ...]:
    """Names the layouts that there are here: torch may lack oneDNN, or our kernels a compiler."""
    operations, names = torch.ops.mkldnn, ("_reorder_linear_weight", "_linear_pointwise")
    packs = torch.backends.mkldnn.is_available() and all(hasattr(operations, n) for n in names)
    return (TRANSPOSED, *([PACKED] if packs else []), *([PANELS] if load() else []))


def _byte_layout() -> str:
    """Names the layout of 8-bit weights; oneDNN's rounds more often and calls more."""
    kernels = load()
    return INT8_PANELS if kernels is not None and kernels.has_bytes else INT8


FLOAT_LAYOUTS, BYTES = _float_layouts(), _byte_layout()

_SMALL = 32_768  # weights of fewer numbers are transposed: calling costs more than computing
# At most so many rows, and from so many numbers on, a weight is packed and not laid out in panels.
_PACKED_FROM = ((1, math.inf), (32, 4_500_000), (64, 1_000_000), (math.inf, 200_000))
_WORTH_PACKING = 500_000  # products, where there are no panels
_WORTH_THREADS = 4_000_000  # products, of which our kernel would compute all in one thread
_LARGE = 131_072  # smaller weights stay in float32: rounding their inputs costs more than it saves
_FEW = 4  # rows that one thread multiplies as fast as several
_MOST_INPUTS = 8192  # of 8-bit weights, as in kernels.h


def choose_layout(shape: tuple[int, int], rows: int) -> str:
    """Names the fastest layout of a weight of 32-bit numbers for so many rows.

    Measured for layers 128 to 1024 wide and vocabularies of 8,000 and 16,000, with AVX-512 and one
    thread: what it chooses takes at most 3 % longer than the best choice for each shape.
    """
    size = shape[0] * shape[1]
    if size < _SMALL:
        return TRANSPOSED
    if PANELS in FLOAT_LAYOUTS:
        least = next(least for most, least in _PACKED_FROM if rows <= most)
        shared = torch.get_num_threads() > 1 and size * rows >= _WORTH_THREADS
        wanted = PACKED if size >= least or shared else PANELS
    else:
        wanted = PACKED if size * rows >= _WORTH_PACKING else TRANSPOSED
    return wanted if wanted in FLOAT_LAYOUTS else FLOAT_LAYOUTS[-1]


class LaidOut:
    """Linear layers in the order in which a step applies them, laid out for any number of rows."""

    def __init__(self, layers: Sequence[LinearWeight], *, int8: bool = False) -> None:
        """With `int8`, large weights become 8-bit numbers."""
        self._layers, self._int8 = list(layers), int8
        self._packings: dict[tuple[int, str], Apply] = {}

    def for_rows(self, rows: int) -> list[Apply]:
        """Returns one function for each layer, fast for inputs of about so many rows."""
        # Many rows are worth torch's threads, which our kernel lacks.
        threads = rows > _FEW and torch.get_num_threads() > 1 and has_onednn_int8()
        return [
            self._packing(place, self._layout(place, rows, INT8 if threads else BYTES))
            for place in range(len(self._layers))
        ]

    def in_panels(self) -> list[Apply] | None:
        """Returns all layers but the last for our own kernel; None if it cannot run them."""
        if PANELS not in FLOAT_LAYOUTS or (self._int8 and BYTES != INT8_PANELS):
            return None
        return [
            self._packing(place, INT8_PANELS if self._is_rounded(place) else PANELS)
            for place in range(len(self._layers) - 1)
        ]

    def _layout(self, place: int, rows: int, rounded: str) -> str:
        if self._is_rounded(place):
            return rounded
        return TRANSPOSED if self._int8 else choose_layout(self._layers[place].shape, rows)

    def _is_rounded(self, place: int) -> bool:
        outputs, inputs = self._layers[place].shape
        return self._int8 and outputs * inputs >= _LARGE and inputs <= _MOST_INPUTS

    def _packing(self, place: int, layout: str) -> Apply:
        """Lays out one layer, once; a layout serves all numbers of rows."""
        key = (place, layout)
        if key not in self._packings:
            self._packings[key] = LAYOUTS[layout](self._layers[place])
        return self._packings[key]
