"""Warm start: a new model takes over every tensor of another one that fits, and reports it."""

from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["WarmStart", "warm_start"]


@dataclass(frozen=True)
class WarmStart:
    """Names the parameters that were taken over, are new, and were ignored in the other model."""

    matched: tuple[str, ...]
    new: tuple[str, ...]
    ignored: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.matched)} tensors taken over"]
        for word, names in (("new", self.new), ("ignored", self.ignored)):
            if names:
                lines.append(f"{len(names)} {word}: {', '.join(names)}")
        return "; ".join(lines)


@torch.no_grad()
def warm_start(model: nn.Module, other: nn.Module) -> WarmStart:
    """Copies into `model` each parameter of `other` that has the same name and shape."""
    theirs = dict(other.named_parameters())
    matched = []
    for name, parameter in model.named_parameters():
        if name in theirs and theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
            matched.append(name)
    new = tuple(name for name, _ in model.named_parameters() if name not in matched)
    ignored = tuple(name for name in theirs if name not in matched)
    return WarmStart(tuple(matched), new, ignored)
