"""Merges figures of pieces into figures of words."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from untold.corpus.words import Word
from untold.models.signals import REDUNDANT


def merge_values(
    values: Float[np.ndarray, " pieces"],
    words: Sequence[Word],
    how: Callable[[np.ndarray], float],
) -> Float[np.ndarray, " n"]:
    """Gives each word the mean, the highest or the sum of its pieces, as `how` says."""
    return np.array([how(values[word.pieces]) for word in words])


def merge_links(
    values: Float[np.ndarray, "pieces_t pieces_i"], target: Sequence[Word], source: Sequence[Word]
) -> Float[np.ndarray, "t i"]:
    """Gives two words the highest value of any two of their pieces; words follow each other."""
    if not target or not source:
        return np.zeros((len(target), len(source)), values.dtype)
    rows = values[: target[-1].pieces.stop, : source[-1].pieces.stop]
    for axis, words in enumerate((target, source)):
        rows = np.maximum.reduceat(rows, [word.pieces.start for word in words], axis=axis)
    return rows


def merge_assignments(
    assignments: Float[np.ndarray, "pieces_t pieces_i g"],
    target: Sequence[Word],
    source: Sequence[Word],
) -> Float[np.ndarray, "t i g"]:
    """Merges the assignments of pieces into assignments of words.

    Row t gives the shares of the source words (past, future, redundant) before target word t is
    generated; the last row gives them before EOS. A target word takes the row of its first piece.
    EOS is the last row of `assignments`; the column of the source's EOS belongs to no word.
    """
    return merge_shares(assignments[word_steps(target, len(assignments))], source)


def word_steps(target: Sequence[Word], steps: int) -> list[int]:
    """Lists the steps before each target word and, last, before EOS."""
    return [*(word.pieces.start for word in target), steps - 1]


def merge_shares(
    shares: Float[np.ndarray, "t pieces_i g"], source: Sequence[Word]
) -> Float[np.ndarray, "t i g"]:
    """Merges the shares of source pieces into shares of source words, at all steps.

    The redundant share of a source word is the product of its pieces' redundant shares, because
    often only the ▁ before a word or its ending is redundant. Past and future divide the rest in
    the proportion of their sums over the pieces.
    """
    merged = [_merge_pieces(shares[:, word.pieces]) for word in source]
    shape = (len(shares), 0, shares.shape[2])
    return np.stack(merged, axis=1) if merged else np.zeros(shape, shares.dtype)


def merge_copying(
    copying: Float[np.ndarray, "pieces_t pieces_i"],
    target: Sequence[Word],
    source: Sequence[Word],
) -> Float[np.ndarray, "t i"]:
    """Returns the share of each target word that was copied from each source word.

    It sums the probabilities over the pieces of the source word, and averages them over the pieces
    of the target word. The last row is that of EOS.
    """
    rows = [copying[word.pieces].mean(axis=0) for word in target]
    steps = np.stack([*rows, copying[-1]])
    merged = [steps[:, word.pieces].sum(axis=1) for word in source]
    return np.stack(merged, axis=1) if merged else np.zeros((len(steps), 0), copying.dtype)


def _merge_pieces(shares: Float[np.ndarray, "t pieces g"]) -> Float[np.ndarray, "t g"]:
    past_future, redundant = shares[..., :REDUNDANT].sum(axis=1), shares[..., REDUNDANT:]
    all_redundant, rest = redundant.prod(axis=1), (1 - redundant).sum(axis=1)
    past_future = past_future * (1 - all_redundant) / np.where(rest > 0, rest, 1)
    return np.concatenate([past_future, all_redundant], axis=-1)
