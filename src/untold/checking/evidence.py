"""Turns the account of a pair into evidence: a few numbers for each word, for regressions.

Evidence for an omission speaks of a source word, evidence for an addition of a target word. Shares
and probabilities enter as log-odds, since a regression adds. A word is merged from its pieces.

Merges figures of pieces into figures of words.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from untold.corpus.words import Span, span_text
from untold.decoding.scoring import PairAccount
from untold.models.signals import FUTURE, PAST, REDUNDANT
from untold.storage.calibration import SHARE_EVIDENCE, SOURCE_EVIDENCE, TARGET_EVIDENCE


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


_CERTAIN = 1e-4  # probabilities nearer to 0 or 1 than this are not told apart
_IMPOSSIBLE = -100.0  # log-probabilities below this are not told apart


def log_odds(probability: np.ndarray) -> np.ndarray:
    """Returns log p/(1 - p), with p kept away from 0 and 1."""
    inside = np.clip(probability, _CERTAIN, 1 - _CERTAIN)
    return np.log(inside / (1 - inside))


def source_evidence(account: PairAccount, words: Sequence[Span]) -> Float[np.ndarray, "i k"]:
    """Computes the evidence that each source word is untold; `words` are spans of its pieces.

    A word may be left out, and FUTURE says so; or something else was said for it, which deceives
    the routing but not the lexicon. Either is enough.
    """
    future, redundant = share_evidence(account, words).T
    told = 1 / (1 + np.exp(future))
    covered = np.nan_to_num(account.covered, nan=1.0)
    columns = {
        "untold": log_odds(1 - told * (1 - _merge(account.alone, words, np.mean))),
        "uncovered": -np.log(np.maximum(0.01, _merge(covered, words, np.mean))),
        "redundant": redundant,
        "content": _content(account.source, words),
    }
    return np.stack([columns[name] for name in SOURCE_EVIDENCE], axis=1).astype(np.float64)


def share_evidence(account: PairAccount, words: Sequence[Span]) -> Float[np.ndarray, "i 2"]:
    """Computes the evidence of shares alone: FUTURE against PAST, REDUNDANT at the first step."""
    if not words:
        return np.zeros((0, len(SHARE_EVIDENCE)))
    first, last = merge_assignments(account.shares, (Span(0, 1),), words)
    future = last[:, FUTURE] / np.maximum(1e-9, last[:, PAST] + last[:, FUTURE])
    return np.stack([log_odds(future), log_odds(first[:, REDUNDANT])], axis=1).astype(np.float64)


def lexicon_evidence(account: PairAccount, words: Sequence[Span]) -> Float[np.ndarray, " i"]:
    """Computes the evidence of the lexicon alone: no target word explains the source word."""
    return log_odds(_merge(1 - account.links.sum(0), words, np.mean))


def target_evidence(account: PairAccount, words: Sequence[Span]) -> Float[np.ndarray, "t m"]:
    """Computes the evidence that nothing explains each target word."""
    if not words:
        return np.zeros((0, len(TARGET_EVIDENCE)))
    past = account.shares[..., PAST]
    rise = np.maximum(0, past[1:] - past[:-1]).sum(1)
    unexplained = 1 - account.origins.sum(1)
    repeated = (account.origins * past[:-1]).sum(1)
    surprise = -_bounded(account.log_probabilities)[:-1]
    columns = {
        "unexplained": log_odds(_merge(unexplained, words, np.mean)),
        "unexplained_piece": log_odds(_merge(unexplained, words, np.max)),
        "unlinked": -np.log(0.01 + _merge(account.links.sum(1), words, np.mean)),
        "rise": -np.log(0.01 + _merge(rise, words, np.sum)),
        "repeated": log_odds(_merge(repeated, words, np.mean)),
        "surprise": _merge(surprise, words, np.mean),
        "surprise_first": surprise[[word.start for word in words]],
        "content": _content(account.target, words),
    }
    return np.stack([columns[name] for name in TARGET_EVIDENCE], axis=1).astype(np.float64)


def segment_evidence(
    account: PairAccount, word_log_odds: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " k"]:
    """Computes the evidence that any word of a side is lacking, from what is said of each word."""
    highest, total = -10.0, -10.0
    if len(word_log_odds):
        bounded = np.clip(word_log_odds, -30, 30)
        highest, total = float(bounded.max()), float(np.log(np.exp(bounded).sum()))
    log_probabilities = _bounded(account.log_probabilities)
    return np.array([highest, total, log_probabilities[-1], -log_probabilities.mean()])


def _bounded(log_probabilities: np.ndarray) -> np.ndarray:
    """Keeps log-probabilities finite: a model that copies may hold a piece for impossible."""
    return np.maximum(log_probabilities, _IMPOSSIBLE).astype(np.float64)


def _merge(
    values: np.ndarray, words: Sequence[Span], how: Callable[[np.ndarray], float]
) -> np.ndarray:
    return np.array([how(values[word.start : word.stop]) for word in words])


def _content(pieces: Sequence[str], words: Sequence[Span]) -> np.ndarray:
    texts = (span_text(pieces, word) for word in words)
    return np.array([float(any(letter.isalnum() for letter in text)) for text in texts])
