"""Warm start: a new model takes over every tensor of another one that fits, and reports it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

__all__ = ["WarmStart", "warm_start"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class WarmStart:
    """Names the parameters that were taken over, are new, and were ignored in the other model.

    One of another shape is new and ignored at once; `reshaped` has its shapes there and here.
    """

    matched: tuple[str, ...]
    new: tuple[str, ...]
    ignored: tuple[str, ...]
    reshaped: Mapping[str, tuple[Shape, Shape]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{len(self.matched)} tensors taken over"]
        for words, names in self._others().items():
            if names:
                example = f", such as {names[0]}" if names[0] in self.reshaped else ""
                count = f"{len(names)} {words} ({_count_by_module(names)})"
                parts.append(f"{count}{example}{self._shapes(names[0])}")
        return "; ".join(parts)

    def listing(self) -> str:
        """Lists every name with what became of it, a line each."""
        rows = {"taken over": self.matched, **self._others()}
        return "".join(
            f"{words}: {name}{self._shapes(name)}\n"
            for words, names in rows.items()
            for name in names
        )

    def _others(self) -> dict[str, tuple[str, ...]]:
        """Sorts the names that were not taken over by the reason."""
        return {
            "of another shape": tuple(self.reshaped),
            "new": tuple(name for name in self.new if name not in self.reshaped),
            "not used": tuple(name for name in self.ignored if name not in self.reshaped),
        }

    def _shapes(self, name: str) -> str:
        there, here = self.reshaped.get(name, ((), ()))
        return f", {there} there and {here} here" if there or here else ""


@torch.no_grad()
def warm_start(model: nn.Module, other: nn.Module) -> WarmStart:
    """Copies into `model` each parameter of `other` that has the same name and shape."""
    theirs = dict(other.named_parameters())
    matched, reshaped = [], {}
    for name, parameter in model.named_parameters():
        if name not in theirs:
            continue
        if theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
            matched.append(name)
        else:
            reshaped[name] = (tuple(theirs[name].shape), tuple(parameter.shape))
    new = tuple(name for name, _ in model.named_parameters() if name not in matched)
    ignored = tuple(name for name in theirs if name not in matched)
    return WarmStart(tuple(matched), new, ignored, reshaped)


def _count_by_module(names: Iterable[str]) -> str:
    """Counts by module, such as "backbone.encoder 12, past_future 15"."""
    modules = Counter(
        ".".join(name.split(".")[: 2 if name.startswith("backbone.") else 1]) for name in names
    )
    return ", ".join(f"{module} {count}" for module, count in modules.items())
