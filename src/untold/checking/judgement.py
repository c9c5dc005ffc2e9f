"""Applies a calibration to the account of a pair: a probability for each word and for the whole."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from untold.checking.evidence import segment_evidence, source_evidence, target_evidence
from untold.corpus.words import display_spans
from untold.decoding.scoring import PairAccount
from untold.storage.calibration import Calibration, Regression, probability

EXPECTED = 0.1  # one segment in ten lacks something

Side = tuple[tuple[float, ...], float]


@dataclass(frozen=True)
class Judgement:
    """Probabilities of each word, as it is displayed, and that any of them is lacking."""

    omission: Side  # source words that were never told
    addition: Side  # target words that nothing in the source explains


def judge_pair(
    account: PairAccount, calibration: Calibration, expected: float = EXPECTED
) -> Judgement:
    """Judges a pair from a text of which a share `expected` of all segments is damaged."""
    source = source_evidence(account, display_spans(account.source))
    target = target_evidence(account, display_spans(account.target))

    def side(words: Regression, segment: Regression, evidence: Float[np.ndarray, "n k"]) -> Side:
        found = calibration.words(words, evidence, expected)
        learnt = words.log_odds(evidence, words.prior)
        whole = segment.log_odds(segment_evidence(account, learnt)[None], expected)
        return tuple(probability(found).tolist()), float(probability(whole)[0])

    return Judgement(
        side(calibration.omitted, calibration.has_omission, source),
        side(calibration.added, calibration.has_addition, target),
    )
