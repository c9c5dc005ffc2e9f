"""Joins past and future to the tokens that a decoder of transformers has read in one call."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.huggingface.pretrained.coverage_cache import add_coverage, read_coverage
from untold.models.backbone import Decoded, Source
from untold.models.seq2seq import Seq2Seq

__all__ = ["DecodedTokens", "separate_tokens", "spread_shares"]


@dataclass(frozen=True)
class DecodedTokens:
    """Holds tokens, and the states of a decoder that has read them after those of its cache."""

    ids: Int[Tensor, "b t"]
    states: Float[Tensor, "b t d"]
    start: int  # the number of tokens that the cache holds
    frame: int  # positions before that of BOS, where nothing is separated

    @property
    def hidden(self) -> int:
        """Counts the tokens here that are part of the frame."""
        return min(self.ids.shape[1], max(0, self.frame - self.start))

    @property
    def begins(self) -> bool:
        """Tells if no token of the text, not even BOS, was read before."""
        return self.start <= self.frame


def separate_tokens(
    seq2seq: Seq2Seq, source: Source, read: DecodedTokens, cache: Any
) -> tuple[Float[Tensor, "b t o"], Float[Tensor, "b u i g"]]:
    """Returns what the output layer reads at all positions, and the shares of the u last ones.

    The others are part of the frame. A `cache` then holds what was covered.
    """
    hidden, (rows, length) = read.hidden, read.ids.shape
    parts, shares = [seq2seq.backbone.finish(read.states[:, :hidden])], []
    assert seq2seq.past_future is not None
    covers = seq2seq.past_future.coverage is not None
    ids, states = read.ids[:, hidden:], read.states[:, hidden:]
    if hidden < length and (read.begins or not covers):
        made = seq2seq.decode(source, ids, decoded=Decoded(states))
        parts.append(made.holistic)
        shares.append(made.assignments)
        covered = None if made.separated is None else made.separated.covered
        if cache is not None and covered is not None:
            add_coverage(cache, covered)
    elif hidden < length:
        covered = read_coverage(cache)
        for last, state in zip(ids.split(1, dim=1), states.split(1, dim=1), strict=True):
            step = seq2seq.read_step(source, last, Decoded(state), covered, begins=False)
            parts.append(step.holistic)
            shares.append(step.signals.assignments)
            assert step.covered is not None
            covered = step.covered
            add_coverage(cache, covered[:, None])
    none = read.states.new_zeros(rows, 0, source.mask.shape[1], 3)
    return torch.cat(parts, dim=1), torch.cat([none, *shares], dim=1)


def spread_shares(
    shares: Float[Tensor, "b u i g"], places: Int[Tensor, "b i"], hidden: int, width: int
) -> Float[Tensor, "b t f g"]:
    """Puts shares to the columns of the input, behind positions at which nothing is separated."""
    whole = shares.new_zeros(len(shares), hidden + shares.shape[1], width, shares.shape[3])
    index = places[:, None, :, None].expand_as(shares)
    whole[:, hidden:].scatter_(2, index, shares)  # zero at places behind the end of a row
    return whole
