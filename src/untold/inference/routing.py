"""Guided routing for one decoding step, in few products: what the source alone decides is folded.

The decoder state z meets the source in products alone, so that weights can be multiplied into the
votes once a sentence. With the letters of models/routing.py:

    <v[i,j], W_z^(j) z>     = <W_z^(j)' v[i,j], z>           routing keys: one product for all j
    sum_i c[i,j] v[i,j]     = the capsules s[j], before squashing
    |s[j]|^2                = sum_ik c[i,j] c[k,j] <v[i,j], v[k,j]>
    <v[i,j], W_o s[j]>      = sum_k c[k,j] <v[i,j], W_o v[k,j]>
    W_f^(j) s[j]            = sum_i c[i,j] W_f^(j) v[i,j]                 what the fusion adds

So a step never computes a capsule: tables of products between the words of a source (grams) give
their lengths and what they agree with. In the last round nothing is computed for redundant
capsules but their share of each word. This is the default form (dot agreement, coverage by tokens,
linear fusion); other forms run through their modules. A compiled kernel takes a step in one call;
where there is none, torch takes it in some thirty.
"""

import ctypes
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.inference.kernels import Folded, RoutedRows, load
from untold.inference.kv_cache import RaggedSource, native_sources
from untold.models.past_future import LinearFusion, PastFuture
from untold.models.routing import DotAgreement, GuidedRouting, RoutingPrior


class RoutedStep(NamedTuple):
    """Holds what routing gives to one step of n beams."""

    holistic: Float[Tensor, "b n o"]  # what the output layer reads
    shares: Float[Tensor, "b n i g"]
    covered: Float[Tensor, "bn i"]


class _FoldedWeights(NamedTuple):
    """Holds all that depends on the source alone; the first axis of each is b."""

    keys: Float[Tensor, "b k d"]  # k = (1 + j) i: of the focus first, then of the capsules
    token_keys: Float[Tensor, "b i o"]
    start: Float[Tensor, "b j 1 i"]  # logits before the decoder state is seen
    grams: Float[Tensor, "b j i 2i"]  # products of votes: for lengths, then for agreement
    read_grams: Float[Tensor, "b p i i"]  # for lengths, of past and future
    fusion: Float[Tensor, "b pi o"]


class PreparedRouting:
    """Routes the words of a source as seen from one step of its beams."""

    def __init__(
        self,
        past_future: PastFuture,
        agreement: DotAgreement,
        coverage: RoutingPrior,
        tokens: Float[Tensor, "v o"],
    ) -> None:
        """Takes the modules of a model, and one vector for each of its target tokens."""
        separator, token = past_future.separator, coverage.token
        assert isinstance(separator, GuidedRouting) and token is not None
        self._rounds, self._counts = separator.rounds, past_future.counts
        self._read, capsules = sum(self._counts[:2]), sum(self._counts)
        self._strength = coverage.strength.detach().clone()[:, None, None]
        self._tokens = tokens.detach().contiguous()
        self._categories = torch.arange(3).repeat_interleave(torch.tensor(self._counts))
        key, scale = coverage.key.weight, coverage.scale
        # What is linear in the source's states is one product: keys of the focus and of tokens,
        # each word's own logits, and the votes.
        parts = [
            coverage.query.weight.T @ key * scale,
            token.weight.T @ key * (scale * token.weight.shape[1] ** 0.5),
            coverage.word.weight,
            separator.vote.weight,
        ]
        self._widths = [len(part) for part in parts]
        self._source = torch.cat(parts).T.contiguous()
        self._guide = agreement.guide.weight.unflatten(0, (capsules, -1)) * agreement.scale
        self._capsule = agreement.capsule.weight * agreement.scale
        self._fusion = _fusion_weights(past_future, self._read)

    @classmethod
    def of(cls, past_future: PastFuture, tokens: Float[Tensor, "v o"]) -> "PreparedRouting | None":
        """Prepares the default form; None if this model has another one."""
        separator, coverage = past_future.separator, past_future.coverage
        if not isinstance(separator, GuidedRouting) or coverage is None or coverage.token is None:
            return None
        agreement, fusion = separator.agreement, past_future.fusion
        if not isinstance(agreement, DotAgreement) or not isinstance(fusion, LinearFusion):
            return None
        return cls(past_future, agreement, coverage, tokens)

    def cast(self, source: RaggedSource) -> RaggedSource:
        """Folds the weights into the votes of a source, once a sentence."""
        (b, i, d), mask = source.states.shape, source.mask
        flat = torch.mm(source.states.view(b * i, d), self._source)
        focus_keys, token_keys, words, votes = flat.split_with_sizes(self._widths, 1)
        votes = votes.unflatten(1, (len(self._guide), -1)).transpose(0, 1)  # (j, bi, c)
        if source.rows.places is not None:
            votes = votes * mask.view(1, b * i, 1)
        keys = flat.new_empty(b, i + len(votes) * i, d)
        keys[:, :i] = focus_keys.view(b, i, d)
        keys[:, i:].unflatten(1, (-1, i)).copy_(_by_sentence(torch.bmm(votes, self._guide), b))
        fusion_keys = _by_sentence(torch.bmm(votes[: self._read], self._fusion), b)
        votes = _by_sentence(votes, b).contiguous()
        capsule_keys = votes @ self._capsule
        totals = votes.sum(2, keepdim=True) / votes.shape[1]
        agreed = torch.matmul(totals * _squash_factor(totals.square().sum(-1)), capsule_keys.mT)
        logits = words.view(b, i, -1).transpose(1, 2) - 0.5 * self._strength[:, :, 0]  # (b j i)
        lengths = torch.matmul(votes, votes.mT)
        folded = (
            keys,
            token_keys.reshape(b, i, -1).contiguous(),
            agreed.add_(logits[:, :, None]),
            torch.cat([lengths, torch.matmul(votes, capsule_keys.mT)], dim=-1),
            lengths[:, : self._read].contiguous(),
            fusion_keys.reshape(b, self._read * i, -1),
        )
        return replace(source, folded=folded)

    def step(
        self,
        source: RaggedSource,
        states: Float[Tensor, "b n d"],
        last: Int[Tensor, "b n"],
        covered: Float[Tensor, "bn i"] | None,
    ) -> RoutedStep:
        """Routes for n beams that have read `last`; `covered` is None where that was BOS."""
        kernels = load()
        if kernels is None:
            return self._step_in_torch(source, states, last, covered)
        (b, n, _), length = states.shape, source.rows.longest
        states, last = states.contiguous(), last.contiguous()
        covered = None if covered is None else covered.contiguous()
        spoken, holistic = states.new_empty(b * n, length), torch.empty_like(states)
        shares = states.new_empty(b, n, length, 3)
        inputs = states.data_ptr(), last.data_ptr(), None if covered is None else covered.data_ptr()
        outputs = spoken.data_ptr(), holistic.data_ptr(), shares.data_ptr()
        room = torch.empty(3 * (1 + len(self._categories)) * length)
        kernels.route(
            ctypes.byref(self._native_folded(source)),
            ctypes.byref(native_sources(source, source.rows, b * n)),
            ctypes.byref(RoutedRows(*inputs, *outputs)),
            b * n,
            room.data_ptr(),
        )
        return RoutedStep(holistic, shares, spoken)

    def _native_folded(self, source: RaggedSource) -> Folded:
        tables = (table.data_ptr() for table in source.folded)
        length, (_, _, width) = source.rows.longest, source.folded[0].shape
        sizes = length, width, width, len(self._categories), self._read, self._rounds
        constants = self._strength, self._categories, self._tokens
        return Folded(*tables, *sizes, *(part.data_ptr() for part in constants))

    def _step_in_torch(
        self,
        source: RaggedSource,
        states: Float[Tensor, "b n d"],
        last: Int[Tensor, "b n"],
        covered: Float[Tensor, "bn i"] | None,
    ) -> RoutedStep:
        folded = _FoldedWeights(*(part.index_select(0, source.sentences) for part in source.folded))
        b, n, _ = states.shape
        tokens, hidden = self._tokens[last], ~source.mask[:, None]
        (_, j, i, _), p = folded.grams.shape, self._read
        seen = torch.bmm(states, folded.keys.mT)
        if covered is None:
            spoken = torch.zeros(b, n, i)
        else:
            focus = torch.baddbmm(seen[..., :i], tokens, folded.token_keys.mT)
            spoken = focus.masked_fill_(hidden, -torch.inf).softmax(-1).add_(covered.view(b, n, i))
        guided = seen[..., i:].unflatten(2, (j, i)).transpose(1, 2).contiguous()
        logits = torch.addcmul(guided, self._strength, spoken[:, None]).add_(folded.start)
        for _ in range(self._rounds - 1):
            shares = logits.softmax(1).view(b * j, n, i)
            products = torch.bmm(shares, folded.grams.flatten(0, 1))
            factors = _squash_factor((shares * products[..., :i]).sum(-1))
            logits.add_(guided).add_((products[..., i:] * factors).view(b, j, n, i))
        assignments = logits.softmax(1)
        read = assignments[:, :p].reshape(b * p, n, i)
        lengths = (read * torch.bmm(read, folded.read_grams.flatten(0, 1))).sum(-1)
        weights = (read * _squash_factor(lengths)).view(b, p, n, i).transpose(1, 2)
        holistic = torch.baddbmm(states, weights.reshape(b, n, p * i), folded.fusion)
        return RoutedStep(holistic, self._shares(assignments, hidden), spoken.view(b * n, i))

    def _shares(
        self, assignments: Float[Tensor, "b j n i"], hidden: Bool[Tensor, "b 1 i"]
    ) -> Float[Tensor, "b n i g"]:
        """Sums the capsules of each category; padding has no share."""
        parts = assignments.split(self._counts, dim=1)
        shares = torch.stack([part.sum(1) for part in parts], dim=-1)
        return shares.masked_fill(hidden[..., None], 0.0)


def _squash_factor(square: Float[Tensor, "*n"]) -> Float[Tensor, "*n 1"]:
    """Computes |s| / (1 + |s|^2), by which squash multiplies s, of the square of |s|."""
    square = square[..., None].clamp(min=0.0)  # rounding may leave less than nothing
    return square.sqrt() / (square + 1)


def _by_sentence(values: Float[Tensor, "j bi c"], sentences: int) -> Float[Tensor, "b j i c"]:
    return values.unflatten(1, (sentences, -1)).transpose(0, 1)


def _fusion_weights(past_future: PastFuture, read: int) -> Float[Tensor, "p c o"]:
    """Returns the fusion of each capsule that is read, times the capsule's learnt factor."""
    fusion, scale = past_future.fusion, past_future.scale
    assert isinstance(fusion, LinearFusion)
    weight = fusion.transform.weight.unflatten(1, (read, -1)).permute(1, 2, 0)
    return (weight if scale is None else weight * scale[:, None, None]).contiguous()
