"""Chooses the layout of every linear layer by measuring it once, and remembers what it measured.

A step multiplies by all weights in turn, so that those of a large model are cold when it comes back
to one. The measurement does the same: it runs through all layers in the order of a step, once for
each layout, and takes for each shape the layout whose products took the least time. The choice for
a shape and a number of rows is kept in a file for this machine (`~/.cache/untold`, or
XDG_CACHE_HOME); deleting the file makes it measure again.
"""

import json
import os
import platform
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from untold import durable
from untold.errors import UntoldError
from untold.models.transformer_parts import LinearWeight
from untold.prepared.linear_layouts import (
    BYTES,
    FLOAT_LAYOUTS,
    INT8,
    INT8_PANELS,
    LAYOUTS,
    PANELS,
    Apply,
    has_onednn_int8,
)

__all__ = ["LaidOut", "rows_class"]

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
