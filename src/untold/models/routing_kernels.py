"""Guided routing with dot agreement, for training: all rounds and their gradients in one function.

    q = o + g                             o: W Omega of the round before, or `first`; g: the guide's
    b += scale q . v                      logits; they begin as the prior
    c = softmax_j b on real words, Omega = squash(c v)

It computes what GuidedRouting.route says operation by operation, which the tests compare it with.
It is faster because products add to what is there, only queries, assignments and capsules are kept
for the gradients, and the last round squashes only the capsules that something reads. Shape
letters are those of capsule_routing.py.

The non-linearity of capsules: it keeps their direction and makes them shorter than one.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

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


_SENTENCES = 16  # are worked on at a time, where that saves a large temporary value


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
        votes, seen, guided, weight, mask, prior = inputs
        keys, real = votes.flatten(0, 1), mask[:, None, None].to(votes.dtype)
        logits = votes.new_zeros(1, 1, 1) if prior is None else prior.flatten(0, 1)
        kept: list[Tensor] = []
        query = torch.add(guided, seen, out=votes.new_empty(guided.shape))
        for number in range(form.rounds):
            logits = torch.baddbmm(logits, query.flatten(0, 1), keys.mT, alpha=form.scale)
            assignments = logits.view(*query.shape[:3], -1).softmax(1).mul_(real)
            sums = torch.bmm(assignments.flatten(0, 1), keys).view_as(query)
            is_last = number == form.rounds - 1
            norm = length(sums[:, : form.read] if is_last else sums)
            factor = 1 / (norm + 1 / norm)
            capsules = sums[:, : form.read] * factor if is_last else sums.mul_(factor)
            kept += [query, assignments, capsules, norm]
            if not is_last:
                query = (capsules.flatten(0, 2) @ weight.T).view_as(query).add_(guided)
        ctx.save_for_backward(votes, weight, *kept)
        ctx.form, ctx.has_prior = form, prior is not None
        return kept[-2], kept[-3]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        votes, weight, *kept = ctx.saved_tensors
        form, keys, grad_weight = ctx.form, votes.flatten(0, 1), torch.zeros_like(weight)
        grad_capsules, grad_shares = grads[0], grads[1].flatten(0, 1)
        grad_votes = grad_logits = grad_guided = scaled = None
        for number in reversed(range(form.rounds)):
            query, assignments, capsules, norm = kept[4 * number : 4 * number + 4]
            is_last = number == form.rounds - 1  # its gradient comes from outside: it is read only
            room = torch.empty_like(query) if is_last else grad_capsules
            grad_sums = _sums_gradient(capsules, norm, grad_capsules, room).flatten(0, 1)
            grad_shares = _multiply(grad_sums, keys.mT, grad_shares)
            grad_votes = _accumulate(grad_votes, assignments.flatten(0, 1).mT, grad_sums)
            room = grad_sums = grad_capsules = None  # freed: here an update needs the most memory
            of_softmax = _softmax_gradient(assignments, grad_shares)
            grad_logits = of_softmax if grad_logits is None else grad_logits.add_(of_softmax)
            scaled = (grad_logits * form.scale).flatten(0, 1)
            grad_votes = _accumulate(grad_votes, scaled.mT, query.flatten(0, 1))
            if not number:
                break
            grad_query, grad_shares = torch.bmm(scaled, keys), None
            flat = grad_query.flatten(0, 1)
            grad_weight.addmm_(flat.T, kept[4 * number - 2].flatten(0, 2))
            grad_capsules = (flat @ weight).view_as(query)
            grad_guided = grad_query if grad_guided is None else grad_guided.add_(grad_query)
        assert scaled is not None and grad_votes is not None
        # What the first round's query has seen is the same at all positions.
        grad_seen = torch.bmm(scaled.sum(1, keepdim=True), keys)
        grad_guided = _accumulate(grad_guided, scaled, keys)
        made = (x.unflatten(0, votes.shape[:2]) for x in (grad_votes, grad_seen, grad_guided))
        return None, *made, grad_weight, None, grad_logits if ctx.has_prior else None


def _sums_gradient(
    capsules: Tensor, norm: Tensor, grad: Tensor, found: Tensor
) -> Float[Tensor, "b j t c"]:
    """Writes the gradient of the sums that capsules were squashed from into `found`.

    It is zero for capsules that were left out. `found` may be `grad` itself. It is
    squash_gradient, from the capsules Omega = f u and n: f grad + k Omega.
    """
    read = capsules.shape[1]
    if read < found.shape[1]:
        found[:, read:] = 0
    pairs = zip(capsules.split(_SENTENCES), grad.split(_SENTENCES), strict=True)
    along = torch.cat([(one * other).sum(-1, keepdim=True) for one, other in pairs])
    factor, unit = 1 / (norm + 1 / norm), 1 + 1 / norm.square()  # u = s/n = unit Omega
    along.mul_(factor.square()).mul_(1 / norm - norm).mul_(unit).mul_(unit)
    torch.mul(grad, factor, out=found[:, :read]).addcmul_(capsules, along)
    return found


def _softmax_gradient(
    assignments: Float[Tensor, "b j t i"], grad: Float[Tensor, "n t i"]
) -> Float[Tensor, "b j t i"]:
    """Returns the gradient of the logits; it is zero on padding, where the assignments are."""
    weighted = assignments * grad.view_as(assignments)
    return weighted.addcmul_(assignments, weighted.sum(1, keepdim=True), value=-1)


def _multiply(
    a: Float[Tensor, "n x y"], b: Float[Tensor, "n y z"], added: Float[Tensor, "n x z"] | None
) -> Float[Tensor, "n x z"]:
    """Multiplies matrix by matrix, and adds in one pass."""
    return torch.bmm(a, b) if added is None else torch.baddbmm(added, a, b)


def _accumulate(
    sums: Float[Tensor, "n x z"] | None, a: Float[Tensor, "n x y"], b: Float[Tensor, "n y z"]
) -> Float[Tensor, "n x z"]:
    """Adds the products to the sums where they lie."""
    return torch.bmm(a, b) if sums is None else sums.baddbmm_(a, b)
