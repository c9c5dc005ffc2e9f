"""Loads the compiled kernels, and declares their structures and functions as kernels.h does.

`pip install` compiles them where there is a C compiler. Where there is none, or where a user sets
UNTOLD_NATIVE=0, `load` returns None and torch computes everything, more slowly. The kernels have no
threads of their own: beside torch's, which spin while they wait, theirs were slower than one.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

_long, _pointer = ctypes.c_long, ctypes.c_void_p


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class Linear(ctypes.Structure):
    """A linear layer, its weight in panels of floats or of bytes."""

    _fields_ = [
        *_fields(_long, "outputs inputs"),
        *_fields(_pointer, "panels bias bytes scales zeros"),
    ]


class Norm(ctypes.Structure):
    """The weight and bias of a layer norm."""

    _fields_ = _fields(_pointer, "weight bias")


class Shape(ctypes.Structure):
    """Widths and numbers of a stack of layers."""

    _fields_ = [
        *_fields(_long, "width heads layers"),
        ("eps", ctypes.c_float),
        *_fields(ctypes.c_int, "norms_after activation"),
    ]


class Past(ctypes.Structure):
    """Describes what the hypotheses of a search have read."""

    _fields_ = [*_fields(_pointer, "tokens path"), *_fields(_long, "capacity room count next")]


class Sources(ctypes.Structure):
    """Encoded sources without padding."""

    _fields_ = [*_fields(_pointer, "keys_values starts sentences"), ("beams", _long)]


class Room(ctypes.Structure):
    """Memory for what a call computes on its way."""

    _fields_ = _fields(_pointer, "normed wide context shares")


class Folded(ctypes.Structure):
    """Describes what sources decide for routing."""

    _fields_ = [
        *_fields(_pointer, "keys token_keys start grams read_grams fusion"),
        *_fields(_long, "length width outputs capsules read rounds"),
        *_fields(_pointer, "strength categories tokens"),
    ]


class RoutedRows(ctypes.Structure):
    """Describes what goes into one step of routing and comes out of it."""

    _fields_ = _fields(_pointer, "states last covered spoken holistic shares")


class Layers:
    """The structures of encoder and decoder layers: linear layers, then norms."""

    @staticmethod
    def of(rows: list[tuple[list[Linear], list[Norm]]]) -> ctypes.Array:
        """Puts the layers of one stack after each other."""
        linears, norms = len(rows[0][0]), len(rows[0][1])

        class Layer(ctypes.Structure):
            _fields_ = [("linears", Linear * linears), ("norms", Norm * norms)]

        layers = [Layer((Linear * linears)(*one), (Norm * norms)(*two)) for one, two in rows]
        return (Layer * len(rows))(*layers)


class Kernels:
    """The functions of the library."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))

        def declared(name: str, *arguments: type) -> Callable[..., None]:
            function = getattr(library, f"untold_{name}")
            function.argtypes, function.restype = arguments, None
            return function

        has_bytes = library.untold_has_bytes
        has_bytes.argtypes, has_bytes.restype = (), ctypes.c_int
        self.has_bytes = bool(has_bytes())  # 8-bit products that are faster than floats
        p, n = _pointer, _long
        self.multiply = declared("multiply", p, p, p, n, ctypes.c_int)
        self.read_past = declared("read_past", p, n, p, p, n, p, p)
        self.read_source = declared("read_source", p, n, p, p, n, p, p, p, n)
        self.read_own = declared("read_own", p, p, p, n, p, p)
        self.decode = declared("decode", p, p, p, p, p, p, p, p, n, p, n, n)
        self.encode = declared("encode", p, p, p, p, n, p, p, p)
        self.route = declared("route", p, p, p, n, p)
        self.largest = declared("largest", p, n, n, n, p, p)


@cache
def load() -> Kernels | None:
    """Loads the library; None where it was not compiled, or the user wants torch alone."""
    if os.environ.get("UNTOLD_NATIVE") == "0":
        return None
    for path in sorted(Path(__file__).parent.glob("_kernels*.so")):
        try:
            return Kernels(path)
        except (OSError, AttributeError):  # made for another system, or by another version
            continue
    return None
