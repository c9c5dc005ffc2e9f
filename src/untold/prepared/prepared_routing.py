"""Guided routing for one decoding step, in few products: what the source alone decides is folded.

The decoder state z meets the source in products alone, so that weights can be multiplied into the
votes once a sentence. With the letters of models/capsule_routing.py:

    <v[i,j], W_z^(j) z>       = <W_z^(j)' v[i,j], z>        the routing keys: one product for all j
    <v[i,j], W_o Omega[j]>    = <W_o' v[i,j], Omega[j]>     no map of the capsules between rounds
    fusion(capsules)          = sum_ij c[i,j] f[j] W_f^(j) v[i,j]      f[j]: the factor of squash

In the last round nothing is computed for redundant capsules but their share of each word. All
tensors of a step have the shape (b, j, i, n): n beams are the last axis, which products fill at
once. This is the default form (dot agreement, coverage by tokens, linear fusion); other forms run
through their modules.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from untold.models.backbone import Source
from untold.models.capsule_routing import DotAgreement, GuidedRouting, RoutingPrior, uniform_routing
from untold.models.past_future import LinearFusion, PastFuture

__all__ = ["PreparedRouting", "RoutedStep"]


class RoutedStep(NamedTuple):
    """Holds what routing gives to one step of n beams."""

    holistic: Float[Tensor, "b n o"]  # what the output layer reads
    shares: Float[Tensor, "b n i g"]
    covered: Float[Tensor, "bn i"]


class _Folded(NamedTuple):
    """Holds all that depends on the source alone; the first axis of each is b."""

    keys: Float[Tensor, "b k d"]  # k = (1 + j) i: of the focus first, then of the capsules
    token_keys: Float[Tensor, "b i o"]
    start: Float[Tensor, "b j i 1"]  # logits before the decoder state is seen
    votes: Float[Tensor, "b j i c"]  # zero on padding
    capsule_keys: Float[Tensor, "b j i c"]
    read_votes: Float[Tensor, "b p i c"]  # of past and future
    fusion: Float[Tensor, "b pi o"]
    real: Float[Tensor, "b i 1"] | None = None  # 1 or 0; None: nothing is padded


class PreparedRouting:
    """Routes the words of a source as seen from one step of its beams."""

    def __init__(
        self, past_future: PastFuture, agreement: DotAgreement, coverage: RoutingPrior
    ) -> None:
        self._past_future, self._agreement, self._coverage = past_future, agreement, coverage
        separator = past_future.separator
        assert isinstance(separator, GuidedRouting)
        self._separator, self._rounds = separator, separator.rounds
        self._strength = coverage.strength[:, None, None]
        self._counts = past_future.counts
        self._read = sum(self._counts[:2])

    @classmethod
    def of(cls, past_future: PastFuture) -> "PreparedRouting | None":
        """Prepares the default form; None if this model has another one."""
        separator, coverage = past_future.separator, past_future.coverage
        if not isinstance(separator, GuidedRouting) or coverage is None or coverage.token is None:
            return None
        agreement, fusion = separator.agreement, past_future.fusion
        if not isinstance(agreement, DotAgreement) or not isinstance(fusion, LinearFusion):
            return None
        return cls(past_future, agreement, coverage)

    def cast(self, source: Source) -> Source:
        """Folds the weights into the votes of a source, once a sentence."""
        states, mask = source.states, source.mask
        agreement, coverage = self._agreement, self._coverage
        real = None if bool(mask.all()) else mask[..., None].to(states.dtype)
        votes = self._separator.votes(states)
        if real is not None:
            votes = votes * real[:, None]
        j, c = votes.shape[1], votes.shape[3]
        first = agreement.capsule(uniform_routing(votes, mask).capsules.transpose(1, 2))
        keys, words = coverage.cast(states)
        focus_keys = keys @ coverage.query.weight * coverage.scale
        guide = agreement.guide.weight.view(j, c, -1)
        guide_keys = (votes @ guide * agreement.scale).flatten(1, 2)
        own = words - 0.5 * self._strength[:, :, 0]
        start = (agreement.scores(votes, first).mT + own[..., None]).contiguous()
        folded = (
            torch.cat([focus_keys, guide_keys], dim=1),
            self._token_keys(keys),
            start,
            votes,
            votes @ agreement.capsule.weight * agreement.scale,
            votes[:, : self._read].contiguous(),
            self._fusion_keys(votes),
        )
        return replace(source, votes=folded if real is None else (*folded, real))

    def step(
        self,
        source: Source,
        states: Float[Tensor, "b n d"],
        tokens: Float[Tensor, "b n o"],
        covered: Float[Tensor, "bn i"] | None,
    ) -> RoutedStep:
        """Routes for n beams that have read `tokens`; `covered` is None where that was BOS."""
        folded = _Folded(*source.votes)
        (b, n, _), (_, j, i, _) = states.shape, folded.votes.shape
        seen = torch.bmm(folded.keys, states.mT)
        if covered is None:
            spoken = torch.zeros(b, i, n)
        else:
            focus = torch.baddbmm(seen[:, :i], folded.token_keys, tokens.mT)
            if folded.real is not None:
                focus.masked_fill_(folded.real == 0, -torch.inf)
            spoken = focus.softmax(1).add_(covered.view(b, n, i).mT)
        guided = seen[:, i:].view(b, j, i, n)
        logits = torch.addcmul(guided, self._strength, spoken[:, None]).add_(folded.start)
        for _ in range(self._rounds - 1):
            shares = logits.softmax(1).view(b * j, i, n)
            capsules = torch.bmm(folded.votes.flatten(0, 1).mT, shares)
            agreed = torch.bmm(folded.capsule_keys.flatten(0, 1), capsules)
            agreed.mul_(_squash_factor(capsules))
            logits.add_(guided).add_(agreed.view(b, j, i, n))
        assignments = logits.softmax(1)
        read = assignments[:, : self._read].reshape(b * self._read, i, n)
        capsules = torch.bmm(folded.read_votes.flatten(0, 1).mT, read)
        weights = (read * _squash_factor(capsules)).view(b, self._read * i, n)
        holistic = torch.baddbmm(states, weights.mT, folded.fusion)
        shares = self._shares(assignments, folded.real)
        return RoutedStep(holistic, shares, spoken.mT.reshape(b * n, i))

    def _token_keys(self, keys: Float[Tensor, "b i c"]) -> Float[Tensor, "b i o"]:
        assert self._coverage.token is not None
        weight = self._coverage.token.weight
        return keys @ weight * (self._coverage.scale * weight.shape[1] ** 0.5)

    def _fusion_keys(self, votes: Float[Tensor, "b j i c"]) -> Float[Tensor, "b pi o"]:
        fusion, scale = self._past_future.fusion, self._past_future.scale
        assert isinstance(fusion, LinearFusion)
        weight = fusion.transform.weight.unflatten(1, (self._read, -1)).permute(1, 2, 0)
        if scale is not None:
            weight = weight * scale[:, None, None]
        return (votes[:, : self._read] @ weight).flatten(1, 2)

    def _shares(
        self, assignments: Float[Tensor, "b j i n"], real: Float[Tensor, "b i 1"] | None
    ) -> Float[Tensor, "b n i g"]:
        """Sums the capsules of each category; padding has no share."""
        if len(set(self._counts)) == 1:
            shares = assignments.unflatten(1, (3, -1)).sum(2)
        else:
            parts = assignments.split(self._counts, dim=1)
            shares = torch.stack([part.sum(1) for part in parts], dim=1)
        if real is not None:
            shares = shares * real[:, None]
        return shares.permute(0, 3, 2, 1)


def _squash_factor(capsules: Float[Tensor, "bj c n"]) -> Float[Tensor, "bj 1 n"]:
    """Computes |s| / (1 + |s|^2), by which squash multiplies s."""
    norm = torch.linalg.vector_norm(capsules, dim=1, keepdim=True)
    return norm / (norm * norm + 1)
