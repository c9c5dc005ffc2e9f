"""Counterfactual futures: what is still untold after a prefix from which something was left out.

At the end of a true target the future is always empty, so "the end is near" passes for "nothing is
left". Here a random span is deleted from what the decoder reads, and the truth is taught: the words
of the span are still to come, up to the very end. The word loss stays away from such prefixes, so
that the decoder is not taught to omit.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from untold.corpus.batching import Batch
from untold.corpus.vocabulary import BOS, PAD
from untold.training.losses.bag_of_words import Words

__all__ = ["Shortened", "shorten"]


@dataclass(frozen=True)
class Shortened:
    """Some sentences of a batch, each without a span; `after` marks states that have passed it."""

    rows: Int[Tensor, " r"]
    prefix: Int[Tensor, "r t"]
    words: Words
    after: Bool[Tensor, "r t"]
    origin: Int[Tensor, "r t"]  # where each label stood before


def shorten(batch: Batch, share: float) -> Shortened | None:
    """About a share of the sentences, drawn at random, with a random span of theirs deleted.

    A span is at most half of the words, and never at the end: such a prefix is a true one.
    """
    lengths = batch.target_mask.sum(1) - 1
    chance = torch.rand(3, len(lengths), device=lengths.device)
    rows = ((chance[0] < share) & (lengths >= 2)).nonzero().flatten()
    if not len(rows):
        return None
    lengths, chance = lengths[rows], chance[:, rows]
    spans = 1 + (chance[1] * (lengths // 2)).long()
    starts = (chance[2] * (lengths - spans)).long()
    places = torch.arange(int((lengths - spans).max()) + 1, device=rows.device)
    mask = places <= (lengths - spans)[:, None]
    origin = places + spans[:, None] * (places >= starts[:, None])
    labels = batch.labels[rows].gather(1, origin.clamp(max=batch.labels.shape[1] - 1))
    labels = labels.masked_fill(~mask, PAD)
    begin = torch.full_like(labels[:, :1], BOS)
    words = Words(labels, mask, batch.labels[rows], batch.target_mask[rows])
    prefix = torch.cat([begin, labels[:, :-1]], dim=1).masked_fill(~mask, PAD)
    return Shortened(rows, prefix, words, mask & (places > starts[:, None]), origin)
