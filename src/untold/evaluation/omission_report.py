"""Measures how well omissions are found: kinds of omissions against ways to find them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from untold.evaluation.omission_scorers import OmissionScorer, PairScores
from untold.evaluation.omission_sets import OmissionSet
from untold.evaluation.separation import auc
from untold.feedback import task
from untold.storage.calibration import ReliabilityBin, calibration_error, probability, reliability

__all__ = [
    "OmissionFigures",
    "OmissionReport",
    "average_precision",
    "measure_omissions",
    "omission_report",
    "recall_at",
]

_FALSE_ALARMS = 0.01  # words
_MEANINGS = {
    "word auc": "higher is better, 0.5 is chance: omitted words rank above told ones",
    "ap": "higher is better: average precision, when words are read from the most suspicious on",
    "f1": "higher is better: at the threshold that is best on the other half of the pairs",
    "recall@1%": "higher is better: omitted words found with 1 false alarm in 100 told words",
    "segment auc": "higher is better, 0.5 is chance: damaged pairs rank above intact ones, or "
    "pairs with omissions above those without",
    "unlinked": "lower is better: words without a link that are called omitted at that threshold",
    "passes": "what it costs: passes of the model over a pair",
}


@dataclass(frozen=True)
class OmissionFigures:
    """How well one way finds one kind of omissions; None means that it cannot be measured."""

    kind: str
    scorer: str
    passes: str
    pairs: int
    omitted: float  # the share of counted words
    word_auc: float | None
    average_precision: float | None
    f1: float | None
    recall: float | None  # with one false alarm in a hundred told words
    segment_auc: float | None
    unlinked: float | None  # the share of words without a link that are called omitted there


@dataclass(frozen=True)
class OmissionReport:
    """All figures, and how well the probabilities of the account are calibrated."""

    figures: tuple[OmissionFigures, ...]
    calibration_error: float | None
    reliability: tuple[ReliabilityBin, ...]

    def lines(self) -> list[str]:
        """Formats the figures as a table for the terminal."""
        names = ("word auc", "ap", "f1", "recall@1%", "segment auc", "unlinked", "passes")
        shown = [f"{'':28}" + "".join(f"{name:>12}" for name in names)]
        kind = ""
        for each in self.figures:
            if each.kind != kind:
                kind = each.kind
                shown.append(f"{kind}: {each.pairs} pairs, {each.omitted:.1%} of words omitted")
            values = (each.word_auc, each.average_precision, each.f1, each.recall)
            cells = [_cell(value) for value in (*values, each.segment_auc, each.unlinked)]
            shown.append(f"  {each.scorer:26}" + "".join(cells) + f"{each.passes:>12}")
        if self.calibration_error is not None:
            shown += ["", f"expected calibration error of words: {self.calibration_error:.4f}"]
            shown.append(f"{'said':>8}{'true':>8}{'words':>8}")
            shown += [f"{b.said:8.3f}{b.true:8.3f}{b.count:8}" for b in self.reliability]
        return shown

    def meanings(self) -> list[tuple[str, str]]:
        """Says for each column what it is and which direction is better."""
        return list(_MEANINGS.items())


def omission_report(
    sets: Sequence[OmissionSet], scorers: Sequence[OmissionScorer]
) -> OmissionReport:
    """Measures every way on every set."""
    figures, chances, truth = [], [], []
    sets = [each for each in sets if each.cases]
    with task("finding omissions", len(sets) * len(scorers)) as begun:
        for own in sets:
            for scorer in scorers:
                # One list, so that scorers that need the same pass share it.
                scores = scorer.score([*own.pairs, *own.intact])
                damaged, intact = scores[: len(own.cases)], scores[len(own.cases) :]
                figures.append(measure_omissions(own, scorer, damaged, intact))
                if scorer.name == "account" and own.intact:
                    for said, true in _probabilities(own, damaged, intact):
                        chances.append(said)
                        truth.append(true)
                begun.advance(1)
    if not chances:
        return OmissionReport(tuple(figures), None, ())
    said, true = np.concatenate(chances), np.concatenate(truth)
    bins = tuple(reliability(said, true))
    return OmissionReport(tuple(figures), calibration_error(said, true), bins)


def measure_omissions(
    own: OmissionSet,
    scorer: OmissionScorer,
    damaged: Sequence[PairScores],
    intact: Sequence[PairScores],
) -> OmissionFigures:
    """Computes the figures of one way on one set from its scores."""
    omitted = np.concatenate([case.omitted[case.counted] for case in own.cases])
    word = ap = f1 = recall = unlinked = None
    rows = [each.words for each in damaged]
    known = [row for row in rows if row is not None]
    if len(known) == len(rows) and omitted.any() and not omitted.all():
        pairs = list(zip(known, own.cases, strict=True))
        by_pair = [(row[case.counted], case.omitted[case.counted]) for row, case in pairs]
        scores = np.concatenate([row for row, _ in by_pair])
        rest = np.concatenate([row[~case.counted] for row, case in pairs])
        word, ap = auc(scores[omitted], scores[~omitted]), average_precision(scores, omitted)
        f1 = _f1_of_halves(by_pair)
        recall, threshold = recall_at(_FALSE_ALARMS, scores, omitted)
        unlinked = float((rest > threshold).mean()) if len(rest) else None
    whole = np.array([each.segment for each in damaged])
    if intact:
        segment = auc(whole, np.array([each.segment for each in intact]))
    else:
        lacking = np.array([bool(case.omitted.any()) for case in own.cases])
        segment = auc(whole[lacking], whole[~lacking])
    share = float(omitted.mean()) if len(omitted) else 0.0
    return OmissionFigures(
        own.kind, scorer.name, scorer.passes, len(own.cases), share,
        word, ap, f1, recall, segment, unlinked,
    )  # fmt: skip


def average_precision(scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> float:
    """Computes the mean precision at each true item; items of equal score share their precision."""
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], truth[order]
    last = np.searchsorted(-ordered, -ordered, side="right")  # items down to the end of the tie
    precision = np.cumsum(hits)[last - 1] / last
    return float(precision[hits].mean()) if hits.any() else 0.0


def recall_at(
    alarms: float, scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]
) -> tuple[float, float]:
    """Finds the lowest threshold with at most this share of false alarms: recall, threshold.

    A score is an alarm if it is above the threshold.
    """
    false = np.sort(scores[~truth])[::-1]
    threshold = float(false[min(len(false) - 1, int(alarms * len(false)))])
    return float((scores[truth] > threshold).mean()), threshold


def _f1_of_halves(by_pair: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """Chooses the best threshold on every other pair and measures F1 on the rest, both ways."""
    right = wrong = missed = 0
    for first in (0, 1):
        learnt, held_out = by_pair[first::2], by_pair[1 - first :: 2]
        if not any(len(scores) for scores, _ in learnt) or not held_out:
            return None
        threshold = _best_threshold(*(np.concatenate(each) for each in zip(*learnt, strict=True)))
        scores, truth = (np.concatenate(each) for each in zip(*held_out, strict=True))
        right += int((truth & (scores >= threshold)).sum())
        wrong += int((~truth & (scores >= threshold)).sum())
        missed += int((truth & (scores < threshold)).sum())
    return 2 * right / max(1, 2 * right + wrong + missed)


def _best_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    values = 2 * hits / (np.arange(1, len(order) + 1) + max(1, int(truth.sum())))
    last = np.append(scores[order][1:] != scores[order][:-1], True)  # the end of each tie
    return float(scores[order][int(np.argmax(np.where(last, values, -1.0)))])


def _probabilities(
    own: OmissionSet, damaged: Sequence[PairScores], intact: Sequence[PairScores]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns said and true of the words of damaged pairs and of as many intact ones.

    A word without a link in a damaged pair may have been omitted or not: it is left out.
    """
    found = []
    for case, bad, good in zip(own.cases, damaged, intact, strict=True):
        assert bad.words is not None and good.words is not None
        found.append((probability(bad.words)[case.counted], case.omitted[case.counted]))
        found.append((probability(good.words), np.zeros(len(good.words), bool)))
    return found


def _cell(value: float | None) -> str:
    return f"{'-':>12}" if value is None else f"{value:12.3f}"
