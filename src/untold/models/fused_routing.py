"""Guided routing with dot agreement, for training: all rounds and their gradients in one function.

    q = o + g                             o: W Omega of the round before, or `first`; g: the guide's
    b += scale q . v                      logits; they begin as the prior
    c = softmax_j b on real words, Omega = squash(c v)

It computes what GuidedRouting.route says operation by operation, which the tests compare it with. It is
faster because gradients add up in place, only queries, sums and assignments are kept for them, and
the last round squashes the capsules alone that something reads. Shape letters are those of
capsule_routing.py.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.models.squashing import squash, squash_gradient

__all__ = ["RoutingForm", "dot_routing"]


@dataclass(frozen=True)
class RoutingForm:
    """Says how often words are routed, and which capsules are read: the first ones."""

    rounds: int
    read: int
    scale: float  # of the agreement


def dot_routing(
    form: RoutingForm,
    cast: tuple[Tensor, ...],
    guided: tuple[Float[Tensor, "b j t c"], Float[Tensor, "c c"]],
    mask: Bool[Tensor, "b i"],
    prior: Float[Tensor, "b j t i"] | None,
) -> tuple[Float[Tensor, "b r t c"], Float[Tensor, "b j t i"]]:
    """Returns the capsules that are read, and the assignments of all.

    `cast` holds the votes (b j i c) and the first round's capsules as the agreement sees them
    (b j 1 c); `guided` the guide as it sees it, and the map by which it sees capsules.
    """
    return _DotRouting.apply(form, *cast, *guided, mask, prior)


class _DotRouting(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: RoutingForm, *inputs: Any) -> tuple[Tensor, Tensor]:
        votes, seen, guided, weight, mask, logits = inputs
        keys, real = votes.flatten(0, 1), mask[:, None, None].to(votes.dtype)
        kept, capsules = [], seen
        for number in range(form.rounds):
            query = torch.add(guided, seen, out=votes.new_empty(guided.shape))
            agreed = torch.bmm(query.flatten(0, 1), keys.mT).mul_(form.scale)
            agreed = agreed.view(*query.shape[:3], -1)
            logits = agreed if logits is None else agreed.add_(logits)
            assignments = logits.softmax(1).mul_(real)
            sums = torch.bmm(assignments.flatten(0, 1), keys).view_as(query)
            kept += [query, assignments, sums]
            if number == form.rounds - 1:
                capsules = squash(sums[:, : form.read])
            else:
                seen = (squash(sums).flatten(0, 2) @ weight.T).view_as(sums)
        ctx.save_for_backward(votes, weight, *kept)
        ctx.form, ctx.has_prior = form, inputs[-1] is not None
        return capsules, kept[-2]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        votes, weight, *kept = ctx.saved_tensors
        form, keys = ctx.form, votes.flatten(0, 1)
        grad_votes, grad_weight = torch.zeros_like(keys), torch.zeros_like(weight)
        grad_logits, grad_guided = torch.zeros_like(kept[1]), torch.zeros_like(kept[0])
        grad_sums, grad_query = torch.zeros_like(kept[0]), grad_guided
        grad_sums[:, : form.read] = squash_gradient(kept[-1][:, : form.read], grads[0])
        grad_shares: Tensor | None = grads[1]
        for number in reversed(range(form.rounds)):
            query, assignments, _ = kept[3 * number : 3 * number + 3]
            grad_shares = _products(grad_sums, keys.mT, grad_shares)
            grad_votes.baddbmm_(assignments.flatten(0, 1).mT, grad_sums.flatten(0, 1))
            grad_logits += _softmax_gradient(assignments, grad_shares)
            scaled = grad_logits * form.scale
            grad_votes.baddbmm_(scaled.flatten(0, 1).mT, query.flatten(0, 1))
            grad_query = _products(scaled, keys)
            grad_guided += grad_query
            if number:
                sums, flat, grad_shares = kept[3 * number - 1], grad_query.flatten(0, 2), None
                grad_weight.addmm_(flat.T, squash(sums).flatten(0, 2))
                grad_sums = squash_gradient(sums, (flat @ weight).view_as(sums))
        first, prior = grad_query.sum(2, keepdim=True), grad_logits if ctx.has_prior else None
        return None, grad_votes.view_as(votes), first, grad_guided, grad_weight, None, prior


def _products(
    rows: Float[Tensor, "b j t x"],
    keys: Float[Tensor, "n x y"],
    added: Float[Tensor, "b j t y"] | None = None,
) -> Float[Tensor, "b j t y"]:
    """Multiplies the rows of every capsule of every sentence with its keys, and adds."""
    flat = rows.flatten(0, 1)
    if added is None:
        return torch.bmm(flat, keys).view(*rows.shape[:3], -1)
    return torch.baddbmm(added.flatten(0, 1), flat, keys).view_as(added)


def _softmax_gradient(
    assignments: Float[Tensor, "b j t i"], grad: Float[Tensor, "b j t i"]
) -> Float[Tensor, "b j t i"]:
    """Returns the gradient of the logits; it is zero on padding, where the assignments are."""
    weighted = assignments * grad
    return weighted.addcmul_(assignments, weighted.sum(1, keepdim=True), value=-1)
