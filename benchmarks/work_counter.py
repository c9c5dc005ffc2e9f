"""Counts what a computation asks of the machine, part by part, and how long each part takes.

Every operation of torch has a limit that no implementation beats on this machine: the time of its
floating-point operations at the best speed of a matrix product, or the time to move its bytes,
whichever is longer, and the cost of one dispatch. What is beyond the operations is Python's.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

__all__ = ["PARTS", "Machine", "Part", "WorkCounter"]

# The part of an operation is the first one with a word that occurs in its name.
PARTS: dict[str, tuple[str, ...]] = {
    "attention and batched products": ("scaled_dot_product", "bmm", "matmul"),
    "linear layers": ("addmm.", ".mm.", "linear"),
    "softmax and norms": ("softmax", "layer_norm", "logsumexp"),
    "optimizer and clipping": ("fused_adam", "foreach"),
    "random numbers": ("random", "bernoulli", "dropout", "uniform"),
    "look-ups": ("embedding", "gather", "index", "scatter", "topk", "sort", "select_backward"),
}
_PICKING = (
    "embedding",
    "gather",
    "index_select",
    "index.Tensor",
)  # of a large operand a small part
_TRIALS = 2000
ELSE = "elementwise and others"
PYTHON = "Python, autograd and views"


@dataclass(frozen=True)
class Machine:
    """The limits that were measured in the same run."""

    flops: float  # a second
    bandwidths: Mapping[float, float]  # bytes of the operands -> bytes a second
    dispatch: float  # seconds

    def limit(self, flops: float, size: float) -> float:
        """Returns the least seconds of one operation."""
        fitting = [speed for most, speed in self.bandwidths.items() if size <= most]
        speed = fitting[0] if fitting else list(self.bandwidths.values())[-1]
        return max(flops / self.flops, size / speed) + self.dispatch


@dataclass
class Part:
    """What one part took, and what it could have taken."""

    seconds: float = 0.0
    limit: float = 0.0
    calls: int = 0


@dataclass
class WorkCounter(TorchDispatchMode):
    """Measures every operation within its block; nested calls of torch count once."""

    machine: Machine
    overhead: float = 0.0  # seconds by which looking at an operation makes it seem longer
    parts: dict[str, Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def calibrated(cls, machine: Machine) -> "WorkCounter":
        """Makes a counter that knows its own cost, by an operation that only costs its dispatch."""
        trial, small = cls(machine), torch.ones(4)
        with trial, torch.inference_mode():
            for _ in range(_TRIALS):
                small.add_(1.0)
        (part,) = trial.parts.values()
        return cls(machine, max(part.seconds / part.calls - machine.dispatch, 0.0))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = time.process_time()
        found = func(*args, **(kwargs or {}))
        spent = time.process_time() - began
        if not func.is_view:
            size = _moved(str(func), (args, kwargs), found)
            part = self.parts.setdefault(part_of(str(func)), Part())
            part.seconds += spent - self.overhead
            part.limit += self.machine.limit(_flops(func, args, kwargs or {}, found), size)
            part.calls += 1
        return found


def part_of(name: str) -> str:
    """Names the part of an operation such as `aten.addmm.default`."""
    for part, words in PARTS.items():
        if any(word in name for word in words):
            return part
    return ELSE


def _moved(name: str, given: Any, found: Any) -> int:
    """Counts the bytes that an operation reads and writes; a look-up reads what it returns."""
    if any(word in name for word in _PICKING):
        return 2 * sum(map(_bytes, _tensors(found)))
    tensors = [*_tensors(given), *_tensors(found)]
    return sum({_place(each): _bytes(each) for each in tensors}.values())


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (each for each in tree_leaves(values) if isinstance(each, torch.Tensor))


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    """Tells tensors apart; what is read and written in place moves twice, but is counted once."""
    return (tensor.data_ptr() if not tensor.is_mkldnn else id(tensor)), tensor.numel()


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _flops(func: Any, args: Any, kwargs: Mapping[str, Any], found: Any) -> float:
    name = str(func)
    if "scaled_dot_product" in name:
        query, keys = args[:2] if "backward" not in name else args[1:3]
        passes = 10 if "backward" in name else 4  # two products, or five, of two operations each
        return passes * math.prod(query.shape) * keys.shape[-2]
    if "linear" in name or "matmul" in name:  # in inference mode torch does not take them apart
        return 2 * found.numel() * args[0].shape[-1]
    count = flop_registry.get(func.overloadpacket)
    return float(count(*args, **kwargs, out_val=found)) if count else 0.0
