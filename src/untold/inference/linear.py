"""Layouts of a linear layer's weight: one product, in the forms that a CPU computes at best.

    plain        as it was trained; torch packs it again in every call
    transposed   what a product with few rows reads fastest
    packed       oneDNN's own blocks: fastest for large weights, but dear to call
    panels       for few rows: our own kernel reads 32 outputs at a time
    int8         8-bit weights, and inputs that are rounded to 8 bits as they come (oneDNN)
    int8 panels  the same numbers by our own kernel, where the processor has 8-bit products

Which of the others is best depends on the shape, the number of rows and the machine, so it is
measured: see layout_choice.py. They differ in rounding alone; only int8 rounds weights.

Chooses the layout of every linear layer by measuring it once, and remembers what it measured.

A step multiplies by all weights in turn, so that those of a large model are cold when it comes back
to one. The measurement does the same: it runs through all layers in the order of a step, once for
each layout, and takes for each shape the layout whose products took the least time. The choice for
a shape and a number of rows is kept in a file for this machine (`~/.cache/untold`, or
XDG_CACHE_HOME); deleting the file makes it measure again.
"""

import ctypes
import json
import math
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor

from untold import files as durable
from untold.errors import UntoldError
from untold.inference.kernels import Linear, load
from untold.models.backbone import LinearWeight

Apply = Callable[[Tensor], Tensor]  # from rows (r i) to rows (r o)

INT8, PANELS, INT8_PANELS = "int8", "panels", "int8 panels"
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
    "plain": _plain,
    "transposed": _transposed,
    "packed": _packed,
    PANELS: PanelLinear,
    INT8: _int8,
    INT8_PANELS: partial(PanelLinear, int8=True),
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


def _byte_layout() -> str:
    """Names the layout of 8-bit weights; oneDNN's rounds more often and calls more."""
    kernels = load()
    return INT8_PANELS if kernels is not None and kernels.has_bytes else INT8


FLOAT_LAYOUTS, BYTES = _float_layouts(), _byte_layout()


_ROUNDS = 5  # passes over all layers for each layout; the fastest counts
_CLASSES = (1, 4, 16, 64, 256)  # numbers of rows that are measured
_GAIN = 0.9  # another layout must need less than this share of the first one's time
_SMALL = 32_768  # weights of fewer numbers are not measured: calling costs more than computing
_LARGE = 131_072  # smaller weights stay in float32: rounding their inputs costs more than it saves
_FEW = 4  # rows that one thread multiplies by 8-bit weights as fast as several
_MOST_INPUTS = 8192  # of 8-bit weights, as in kernels.h


def rows_class(rows: int) -> int:
    """Returns the measured number of rows that stands for `rows`: the next one above."""
    return next((size for size in _CLASSES if rows <= size), _CLASSES[-1])


def _is_large(shape: tuple[int, int]) -> bool:
    """Tells if a weight becomes 8-bit numbers where those are wanted."""
    outputs, inputs = shape
    return outputs * inputs >= _LARGE and inputs <= _MOST_INPUTS


class LaidOut:
    """Linear layers in the order in which a step applies them, laid out for any number of rows."""

    def __init__(self, layers: Sequence[LinearWeight], *, int8: bool = False) -> None:
        """With `int8`, large weights become 8-bit numbers and nothing is measured."""
        self._layers, self._int8 = list(layers), int8
        self._packings: dict[tuple[int, str], Apply] = {}
        self._by_rows: dict[int, list[Apply]] = {}

    def for_rows(self, rows: int) -> list[Apply]:
        """Returns one function for each layer, fast for inputs of about so many rows."""
        size = rows_class(rows)
        found = self._by_rows.get(size)
        if found is None:
            found = self._by_rows[size] = self._choose(size)
        return found

    def in_panels(self) -> list[Apply] | None:
        """Returns all layers but the last for our own kernel; None if it cannot run them."""
        if PANELS not in FLOAT_LAYOUTS or (self._int8 and BYTES != INT8_PANELS):
            return None
        layouts = self._byte_layouts(PANELS, 1) if self._int8 else [PANELS] * len(self._layers)
        return [self._packing(place, layout) for place, layout in enumerate(layouts[:-1])]

    def _byte_layouts(self, small: str, size: int) -> list[str]:
        """Chooses for all layers; many rows are worth torch's threads, which our kernel lacks."""
        threads = size > _FEW and torch.get_num_threads() > 1 and has_onednn_int8()
        large = INT8 if threads else BYTES
        return [large if _is_large(layer.shape) else small for layer in self._layers]

    def _choose(self, size: int) -> list[Apply]:
        shapes = [layer.shape for layer in self._layers]
        if self._int8:
            layouts = self._byte_layouts(FLOAT_LAYOUTS[0], size)
            return [self._packing(place, each) for place, each in enumerate(layouts)]
        large = {shape for shape in shapes if shape[0] * shape[1] >= _SMALL}
        chosen = _recorded(large, size)
        if chosen is None:
            chosen = self._measure(size)
            _record({shape: chosen[shape] for shape in large}, size)
        return [
            self._packing(place, chosen.get(shape, FLOAT_LAYOUTS[0]))
            for place, shape in enumerate(shapes)
        ]

    def _measure(self, size: int) -> dict[tuple[int, int], str]:
        """Times every layout of every shape."""
        shapes = [layer.shape for layer in self._layers]
        inputs = {width: torch.ones(size, width) for _, width in shapes}
        seconds: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
        for layout in FLOAT_LAYOUTS:
            run = [self._packing(place, layout) for place in range(len(shapes))]
            for _ in range(_ROUNDS):
                passed: dict[tuple[int, int], float] = defaultdict(float)
                for apply, shape in zip(run, shapes, strict=True):
                    x = inputs[shape[1]]
                    before = time.perf_counter()
                    apply(x)
                    passed[shape] += time.perf_counter() - before
                for shape, taken in passed.items():
                    seconds[shape][layout] = min(taken, seconds[shape].get(layout, taken))
        self._packings.clear()  # most of them are not chosen
        return {
            shape: _fastest(taken) if shape[0] * shape[1] >= _SMALL else FLOAT_LAYOUTS[0]
            for shape, taken in seconds.items()
        }

    def _packing(self, place: int, layout: str) -> Apply:
        """Lays out one layer, once; a layout serves all numbers of rows."""
        key = (place, layout)
        if key not in self._packings:
            self._packings[key] = LAYOUTS[layout](self._layers[place])
        return self._packings[key]


def _fastest(seconds: dict[str, float]) -> str:
    """Returns the fastest layout; the first one stays unless another is clearly faster."""
    first, best = next(iter(seconds)), min(seconds, key=lambda layout: seconds[layout])
    return best if seconds[best] < _GAIN * seconds[first] else first


def _file() -> Path:
    """Names the file of this machine's choices: they depend on processor, torch and threads."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "untold" / f"layouts-{_machine()}.json"


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    name = next(names, platform.processor() or platform.machine())
    native = "-native" if PANELS in FLOAT_LAYOUTS else ""
    text = f"{name}-torch-{torch.__version__}-threads-{torch.get_num_threads()}{native}"
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in text)


def _key(shape: tuple[int, int], size: int) -> str:
    return f"{shape[0]}x{shape[1]}, {size} rows"


def _recorded(shapes: Iterable[tuple[int, int]], size: int) -> dict[tuple[int, int], str] | None:
    """Reads the choices for all shapes; None if one is missing or the file is no such file."""
    known = _read()
    found = {shape: known.get(_key(shape, size)) for shape in shapes}
    if any(layout not in FLOAT_LAYOUTS for layout in found.values()):
        return None
    return {shape: str(layout) for shape, layout in found.items()}


def _record(chosen: dict[tuple[int, int], str], size: int) -> None:
    """Adds choices to the file; a machine without a writable home measures again next time."""
    known = _read() | {_key(shape, size): layout for shape, layout in chosen.items()}
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(path, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())
    except (OSError, UntoldError):
        return


def _read() -> dict[str, object]:
    try:
        known = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
