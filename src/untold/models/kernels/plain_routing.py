"""Routing as the paper writes it: slow and plain; tests compare the fast form with it.

    b[i,j] += w . tanh(W_b [z_t; v[i,j]; Omega[j]])

`literal_routing` concatenates and multiplies, position by position of a (b t i j) grid. In
`split_routing` W_b is three maps, each applied once where its input does not change; the hidden
values still exist as a whole.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.models.capsule_routing import (
    DotAgreement,
    GuidedRouting,
    MlpAgreement,
    Routed,
)
from untold.models.kernels.squashing import squash

__all__ = ["literal_routing", "split_routing"]


def literal_routing(
    gdr: GuidedRouting,
    states: Float[Tensor, "b i d"],
    mask: Bool[Tensor, "b i"],
    guide: Float[Tensor, "b t d"],
) -> Routed:
    """Computes every quantity at its full (b t i j) size, anew in every iteration."""
    (b, i, _), t = states.shape, guide.shape[1]
    votes = gdr.vote(states).unflatten(-1, (sum(gdr.counts), -1))
    votes = votes[:, None].expand(b, t, -1, -1, -1)
    logits = votes.new_zeros(votes.shape[:-1])
    seen = guide[:, :, None, None].expand(-1, -1, i, sum(gdr.counts), -1)

    def fill() -> Routed:
        assignments = logits.softmax(-1) * mask[:, None, :, None]
        return Routed(squash((assignments[..., None] * votes).sum(2)), assignments)

    routed = fill()
    for _ in range(gdr.rounds):
        capsules = routed.capsules[:, :, None].expand_as(votes)
        logits = logits + _literal_agreement(gdr, seen, votes, capsules)
        routed = fill()
    return routed


def _literal_agreement(gdr: GuidedRouting, z: Tensor, v: Tensor, omega: Tensor) -> Tensor:
    agreement = gdr.agreement
    if isinstance(agreement, MlpAgreement):
        maps = agreement.guide.weight, agreement.key.weight, agreement.capsule.weight
        joined = torch.cat([z, v, omega], dim=-1) @ torch.cat(maps, dim=1).T
        return (joined + agreement.guide.bias).tanh() @ agreement.weight
    assert isinstance(agreement, DotAgreement)
    own = agreement.guide.weight.unflatten(0, (agreement.capsules, -1))
    query = omega @ agreement.capsule.weight.T + torch.einsum("btijd,jcd->btijc", z, own)
    return (v * query).sum(-1) * agreement.scale


def split_routing(
    gdr: GuidedRouting,
    states: Float[Tensor, "b i d"],
    mask: Bool[Tensor, "b i"],
    guide: Float[Tensor, "b t d"],
) -> Routed:
    """Hoists W_z z and W_v v of the MLP agreement out of the loop, and nothing else."""
    agreement = gdr.agreement
    assert isinstance(agreement, MlpAgreement)
    votes = gdr.vote(states).unflatten(-1, (sum(gdr.counts), -1))[:, None]
    fixed = agreement.key(votes) + agreement.guide(guide)[:, :, None, None]
    logits = votes.new_zeros(*guide.shape[:2], *votes.shape[2:4])

    def fill() -> Routed:
        assignments = logits.softmax(-1) * mask[:, None, :, None]
        sums = torch.einsum("btij,bijc->btjc", assignments, votes[:, 0])
        return Routed(squash(sums), assignments)

    routed = fill()
    for _ in range(gdr.rounds):
        hidden = (fixed + agreement.capsule(routed.capsules)[:, :, None]).tanh()
        logits = logits + hidden @ agreement.weight
        routed = fill()
    return routed
