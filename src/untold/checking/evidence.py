"""Turns what was read of a pair into evidence, numbers for each word, and judges by it.

Evidence for an omission speaks of a source word, evidence for an addition of a target word. Shares
and probabilities enter as log-odds, since a regression adds. A word is merged from its pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from untold.corpus.words import Word, merge_shares, merge_values
from untold.decoding.scoring import ReadPair
from untold.models.signals import FUTURE, PAST, REDUNDANT
from untold.storage.calibration import (
    SHARE_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    Calibration,
    Regression,
    probability,
)

EXPECTED = 0.1  # one segment in ten lacks something
_CERTAIN = 1e-4  # probabilities nearer to 0 or 1 than this are not told apart
_IMPOSSIBLE = -100.0  # log-probabilities below this are not told apart


def log_odds(probability: np.ndarray) -> np.ndarray:
    """Returns log p/(1 - p), with p kept away from 0 and 1."""
    inside = np.clip(probability, _CERTAIN, 1 - _CERTAIN)
    return np.log(inside / (1 - inside))


def source_evidence(pair: ReadPair, words: Sequence[Word]) -> Float[np.ndarray, "i k"]:
    """Computes the evidence that each source word is untold.

    A word may be left out, and FUTURE says so; or something else was said for it, which deceives
    the routing but not the lexicon. Either is enough.
    """
    future, redundant = share_evidence(pair, words).T
    told = 1 / (1 + np.exp(future))
    covered = np.nan_to_num(pair.covered, nan=1.0)
    columns = {
        "untold": log_odds(1 - told * (1 - merge_values(pair.alone, words, np.mean))),
        "uncovered": -np.log(np.maximum(0.01, merge_values(covered, words, np.mean))),
        "redundant": redundant,
        "content": _content(words),
    }
    return np.stack([columns[name] for name in SOURCE_EVIDENCE], axis=1).astype(np.float64)


def share_evidence(pair: ReadPair, words: Sequence[Word]) -> Float[np.ndarray, "i 2"]:
    """Computes the evidence of shares alone: FUTURE against PAST, REDUNDANT at the first step."""
    if not words:
        return np.zeros((0, len(SHARE_EVIDENCE)))
    first, last = merge_shares(pair.shares[[0, -1]], words)
    future = last[:, FUTURE] / np.maximum(1e-9, last[:, PAST] + last[:, FUTURE])
    return np.stack([log_odds(future), log_odds(first[:, REDUNDANT])], axis=1).astype(np.float64)


def lexicon_evidence(pair: ReadPair, words: Sequence[Word]) -> Float[np.ndarray, " i"]:
    """Computes the evidence of the lexicon alone: no target word explains the source word."""
    return log_odds(merge_values(1 - pair.links.sum(0), words, np.mean))


def target_evidence(pair: ReadPair, words: Sequence[Word]) -> Float[np.ndarray, "t m"]:
    """Computes the evidence that nothing explains each target word."""
    if not words:
        return np.zeros((0, len(TARGET_EVIDENCE)))
    past = pair.shares[..., PAST]
    rise = np.maximum(0, past[1:] - past[:-1]).sum(1)
    unexplained = 1 - pair.origins.sum(1)
    repeated = (pair.origins * past[:-1]).sum(1)
    surprise = -_bounded(pair.log_probabilities)[:-1]
    columns = {
        "unexplained": log_odds(merge_values(unexplained, words, np.mean)),
        "unexplained_piece": log_odds(merge_values(unexplained, words, np.max)),
        "unlinked": -np.log(0.01 + merge_values(pair.links.sum(1), words, np.mean)),
        "rise": -np.log(0.01 + merge_values(rise, words, np.sum)),
        "repeated": log_odds(merge_values(repeated, words, np.mean)),
        "surprise": merge_values(surprise, words, np.mean),
        "surprise_first": surprise[[word.pieces.start for word in words]],
        "content": _content(words),
    }
    return np.stack([columns[name] for name in TARGET_EVIDENCE], axis=1).astype(np.float64)


def segment_evidence(
    pair: ReadPair, word_log_odds: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " k"]:
    """Computes the evidence that any word of a side is lacking, from what is said of each word."""
    highest, total = -10.0, -10.0
    if len(word_log_odds):
        bounded = np.clip(word_log_odds, -30, 30)
        highest, total = float(bounded.max()), float(np.log(np.exp(bounded).sum()))
    log_probabilities = _bounded(pair.log_probabilities)
    return np.array([highest, total, log_probabilities[-1], -log_probabilities.mean()])


def _bounded(log_probabilities: np.ndarray) -> np.ndarray:
    """Keeps log-probabilities finite: a model that copies may hold a piece for impossible."""
    return np.maximum(log_probabilities, _IMPOSSIBLE).astype(np.float64)


def _content(words: Sequence[Word]) -> np.ndarray:
    return np.array([float(any(letter.isalnum() for letter in word.read_as)) for word in words])


Side = tuple[tuple[float, ...], float]


@dataclass(frozen=True)
class Judgement:
    """Probabilities of each word, as it is displayed, and that any of them is lacking."""

    omission: Side  # source words that were never told
    addition: Side  # target words that nothing in the source explains


def judge_pair(pair: ReadPair, calibration: Calibration, expected: float = EXPECTED) -> Judgement:
    """Judges a pair from a text of which a share `expected` of all segments is damaged."""

    def side(words: Regression, segment: Regression, evidence: Float[np.ndarray, "n k"]) -> Side:
        log_odds = calibration.words(words, evidence, expected)
        learnt = words.log_odds(evidence, words.prior)
        whole = segment.log_odds(segment_evidence(pair, learnt)[None], expected)
        return tuple(probability(log_odds).tolist()), float(probability(whole)[0])

    omitted, added = calibration.omitted, calibration.added
    return Judgement(
        side(omitted, calibration.has_omission, source_evidence(pair, pair.source_words)),
        side(added, calibration.has_addition, target_evidence(pair, pair.target_words)),
    )
