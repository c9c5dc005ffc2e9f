"""Merges figures of pieces into figures of words."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from untold.categories import REDUNDANT
from untold.corpus.word_spans import Span

__all__ = ["merge_assignments", "merge_copying"]


def merge_assignments(
    assignments: Float[np.ndarray, "pieces_t pieces_i g"],
    target: Sequence[Span],
    source: Sequence[Span],
) -> Float[np.ndarray, "t i g"]:
    """Merges the assignments of pieces into assignments of words.

    Row t gives the shares of the source words (past, future, redundant) before target word t is
    generated; the last row gives them before EOS. A target word takes the row of its first piece.
    The redundant share of a source word is the product of its pieces' redundant shares, because
    often only the ▁ before a word or its ending is redundant. Past and future divide the rest in
    the proportion of their sums over the pieces. EOS is the last row of `assignments`; the column
    of the source's EOS belongs to no word.
    """
    rows = assignments[[*(span.start for span in target), len(assignments) - 1]]
    merged = [_merge_pieces(rows[:, span.start : span.stop]) for span in source]
    shape = (len(rows), 0, assignments.shape[2])
    return np.stack(merged, axis=1) if merged else np.zeros(shape, assignments.dtype)


def merge_copying(
    copying: Float[np.ndarray, "pieces_t pieces_i"],
    target: Sequence[Span],
    source: Sequence[Span],
) -> Float[np.ndarray, "t i"]:
    """Returns the share of each target word that was copied from each source word.

    It sums the probabilities over the pieces of the source word, and averages them over the pieces
    of the target word. The last row is that of EOS.
    """
    with_eos = (*target, Span(len(copying) - 1, len(copying)))
    rows = np.stack([copying[span.start : span.stop].mean(axis=0) for span in with_eos])
    words = [rows[:, span.start : span.stop].sum(axis=1) for span in source]
    return np.stack(words, axis=1) if words else np.zeros((len(rows), 0), copying.dtype)


def _merge_pieces(shares: Float[np.ndarray, "t pieces g"]) -> Float[np.ndarray, "t g"]:
    past_future, redundant = shares[..., :REDUNDANT].sum(axis=1), shares[..., REDUNDANT:]
    all_redundant, rest = redundant.prod(axis=1), (1 - redundant).sum(axis=1)
    past_future = past_future * (1 - all_redundant) / np.where(rest > 0, rest, 1)
    return np.concatenate([past_future, all_redundant], axis=-1)
