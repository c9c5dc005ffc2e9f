"""Routing by agreement: source words are handed out to capsules, guided by the decoder state.

    b[i,j] = 0
    repeat   c[i,:] = softmax_j b[i,:] on real words, zero on padding      assignments
             Omega[j] = squash(sum_i c[i,j] v[i,j])                        capsules
             b[i,j] += agreement of v[i,j] with Omega[j], seen from z_t    between two rounds

The first round is uniform and knows neither z nor t: its capsules are computed once a sentence,
with the votes. Shape letters: b sentences, j capsules, i source words, t target positions or beams,
c width of a capsule, d width of the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.models.layers import sigmoid_scores

__all__ = [
    "Routed",
    "mlp_scores",
    "route",
    "squash",
    "squash_gradient",
    "uniform",
]

_SHORTEST = 1e-6


@dataclass(frozen=True)
class Routed:
    """Where every source word went, and what the capsules made of it; j: past, future, redundant.

    Assignments are those that the capsules were last filled with; they are zero on padding.
    """

    capsules: Float[Tensor, "b t j c"]  # shorter than one
    assignments: Float[Tensor, "b t i j"]


def squash(s: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """s n / (1 + n^2), n = |s|: keeps the direction, shorter than one; flat at zero."""
    return _Squash.apply(s)


def squash_gradient(s: Float[Tensor, "*b c"], grad: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
    """f (grad + (1/n - n) f (u . grad) u), with u = s/n and f = n / (1 + n^2)."""
    norm = _length(s)
    factor = 1 / (norm + 1 / norm)
    unit = s / norm
    along = (unit * grad).sum(-1, keepdim=True)
    return torch.addcmul(grad, unit, along * (1 / norm - norm) * factor).mul_(factor)


class _Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor) -> Tensor:
        ctx.save_for_backward(s)
        norm = _length(s)
        return s / (norm + 1 / norm)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return squash_gradient(ctx.saved_tensors[0], grads[0])


def _length(s: Tensor) -> Tensor:
    """Never zero, nor infinite if s is not, as sums of squares would be."""
    norm = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    if s.device.type == "cpu" and bool(norm.isfinite().all()):
        return norm.clamp_(min=_SHORTEST)
    size = s.abs().amax(-1, keepdim=True).clamp(min=1.0)
    return (torch.linalg.vector_norm(s / size, dim=-1, keepdim=True) * size).clamp(min=_SHORTEST)


def uniform(
    votes: Float[Tensor, "b j i c"], mask: Bool[Tensor, "b i"], positions: int = 1
) -> Routed:
    """The first round, in which every word is shared out evenly, whatever the position."""
    shares = mask[:, None, None].to(votes.dtype) / votes.shape[1]
    capsules = squash(shares @ votes).transpose(1, 2)
    assignments = shares.transpose(2, 3).expand(-1, positions, -1, votes.shape[1])
    return Routed(capsules.expand(-1, positions, -1, -1), assignments)


def route(
    votes: Float[Tensor, "b j i c"],
    mask: Bool[Tensor, "b i"],
    rounds: int,
    agree: Callable[[Tensor | None], Float[Tensor, "b j t i"]],
) -> Routed:
    """The rounds after the first, at least one. `agree(capsules)` is what they add to b.

    The capsules of the first round are the caller's own: `agree(None)` stands for them.
    """
    real = mask[:, None, None].to(votes.dtype)
    logits = agree(None)
    assignments = logits.softmax(1) * real
    capsules = squash(assignments @ votes)
    for _ in range(rounds - 1):
        logits = logits + agree(capsules)
        assignments = logits.softmax(1) * real
        capsules = squash(assignments @ votes)
    return Routed(capsules.transpose(1, 2), assignments.permute(0, 2, 3, 1))


def mlp_scores(
    keys: Float[Tensor, "b j i c"], query: Float[Tensor, "b j t c"], weight: Float[Tensor, " c"]
) -> Float[Tensor, "b j t i"]:
    """weight . tanh(keys + query) for each pair, less a constant that the softmax over j drops.

    tanh(x) = 2 sigmoid(2x) - 1, and sigmoid is the cheaper of the two on a CPU.
    """
    scores = sigmoid_scores(2 * keys.flatten(0, 1), 2 * query.flatten(0, 1), 2 * weight)
    return scores.view(*keys.shape[:2], query.shape[2], keys.shape[2])
