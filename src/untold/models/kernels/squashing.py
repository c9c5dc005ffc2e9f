"""The non-linearity of capsules: it keeps their direction and makes them shorter than one."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["length", "squash", "squash_gradient"]

_SHORTEST = 1e-6


def squash(s: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """Returns s n / (1 + n^2) with n = |s|: the same direction, shorter than one, flat at zero."""
    return _Squash.apply(s)


def squash_gradient(s: Float[Tensor, "*b c"], grad: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """Returns f (grad + (1/n - n) f (u . grad) u), with u = s/n and f = n / (1 + n^2)."""
    norm = length(s)
    factor = 1 / (norm + 1 / norm)
    unit = s / norm
    along = (unit * grad).sum(-1, keepdim=True)
    return torch.addcmul(grad, unit, along * (1 / norm - norm) * factor).mul_(factor)


class _Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor) -> Tensor:
        ctx.save_for_backward(s)
        norm = length(s)
        return s / (norm + 1 / norm)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return squash_gradient(ctx.saved_tensors[0], grads[0])


def length(s: Float[Tensor, "*b c"]) -> Float[Tensor, "*b 1"]:
    """Returns the norm; it is never zero, and finite if s is, as a sum of squares would not be."""
    norm = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    looks = s.device.type == "cpu" and not torch.compiler.is_compiling()
    if looks and bool(norm.isfinite().all()):
        return norm.clamp_(min=_SHORTEST)
    size = s.abs().amax(-1, keepdim=True).clamp(min=1.0)
    return (torch.linalg.vector_norm(s / size, dim=-1, keepdim=True) * size).clamp(min=_SHORTEST)
