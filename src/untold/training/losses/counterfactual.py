"""Counterfactual prefixes: targets from which a random span is deleted or replaced.

At the end of a true target nothing is left to translate, so a model may learn that the end of the
sentence means an empty future. After a prefix without a span, the words of the span are still to
come, up to the very end; the bag and link losses teach this. So they are if other words stand where
the span was, as in a wrong translation: coverage must look at what was said, and not only notice
that something was. The cross entropy does not see such prefixes, so that the decoder does not learn
to omit words.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.corpus.batching import Batch

__all__ = ["SpanDeletion", "TargetWords", "delete_spans"]

_SHORT = 3  # words of a short span at most


@dataclass(frozen=True)
class TargetWords:
    """The words that a decoder reads, y_1 .. y_T EOS, and the whole sentences they are from.

    Both are the same unless words were deleted.
    """

    labels: Int[Tensor, "b t"]
    mask: Bool[Tensor, "b t"]  # False at padding and at words that replace others
    whole: Int[Tensor, "b s"]
    whole_mask: Bool[Tensor, "b s"]


@dataclass(frozen=True)
class SpanDeletion:
    """Some sentences of a batch, each without a span or with other words in its place."""

    rows: Int[Tensor, " r"]  # their places in the batch
    prefix: Int[Tensor, "r t"]  # BOS y_1 .. y_T
    words: TargetWords
    after: Bool[Tensor, "r t"]  # True where the decoder has read a word behind the gap or in it
    origin: Int[Tensor, "r t"]  # the position of each label in the whole sentence


def delete_spans(
    batch: Batch, share: float, short: float = 0.0, replaced: float = 0.0
) -> SpanDeletion | None:
    """Chooses about this share of the sentences at random and deletes a random span of each.

    A span has at most half of the words and never includes the last one, since a sentence without
    its end is a true prefix. A share of the spans, `short`, has at most three words: one missing
    noun is harder to notice than a missing clause. A share of them, `replaced`, is not deleted:
    random words of the batch take their places. None means that no sentence was chosen.
    """
    lengths = batch.target_mask.sum(1) - 1
    chance = torch.rand(3, len(lengths), device=lengths.device)
    rows = ((chance[0] < share) & (lengths >= 2)).nonzero().flatten()
    if not len(rows):
        return None
    lengths, chance = lengths[rows], chance[:, rows]
    spans = _span_lengths(chance[1], lengths // 2, short)
    starts = (chance[2] * (lengths - spans)).long()
    stays = torch.zeros_like(spans, dtype=torch.bool)
    if replaced:
        stays = torch.rand(len(rows), device=rows.device) < replaced
    gone = spans.masked_fill(stays, 0)
    places = torch.arange(int((lengths - gone).max()) + 1, device=rows.device)
    mask = places <= (lengths - gone)[:, None]
    origin = places + gone[:, None] * (places >= starts[:, None])
    labels = batch.labels[rows].gather(1, origin.clamp(max=batch.labels.shape[1] - 1))
    labels = labels.masked_fill(~mask, batch.special.pad)
    strange = stays[:, None] & (places >= starts[:, None]) & (places < (starts + spans)[:, None])
    if replaced:
        labels = torch.where(strange, _random_words(batch, labels.shape), labels)
    begin = torch.full_like(labels[:, :1], batch.special.bos)
    own = mask & ~strange
    words = TargetWords(labels, own, batch.labels[rows], batch.target_mask[rows])
    prefix = torch.cat([begin, labels[:, :-1]], dim=1).masked_fill(~mask, batch.special.pad)
    return SpanDeletion(rows, prefix, words, mask & (places > starts[:, None]), origin)


def _random_words(batch: Batch, shape: torch.Size) -> Int[Tensor, "r t"]:
    """Draws words of the batch's targets, without their ends."""
    words = batch.labels[:, :-1][batch.target_mask[:, 1:]]
    return words[torch.randint(len(words), shape, device=words.device)]


def _span_lengths(
    chance: Float[Tensor, " r"], longest: Int[Tensor, " r"], short: float
) -> Int[Tensor, " r"]:
    """Draws lengths from 1 to `longest` evenly, and a share of them from 1 to 3 at most."""
    if not short:
        return 1 + (chance * longest).long()
    few = 1 + (chance / short * longest.clamp(max=_SHORT)).long()
    any_length = 1 + ((chance - short) / (1 - short) * longest).long()
    return torch.where(chance < short, few, any_length)
