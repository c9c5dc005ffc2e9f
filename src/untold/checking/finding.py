"""Holds what a check says of a segment: a probability for every word, and suspicious runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from untold.checking.segment import FindingKind, Segment

__all__ = ["CheckedSegment", "Finding", "JudgedSide"]


@dataclass(frozen=True)
class Finding:
    """A run of words of one side of a segment that are probably missing on the other one."""

    kind: FindingKind
    start: int  # the words start .. stop - 1 of the side
    stop: int
    text: str
    probability: float  # of the most suspicious word


@dataclass(frozen=True)
class JudgedSide:
    """The words of a side, and for each the probability that the other side lacks it."""

    words: tuple[str, ...]
    probabilities: tuple[float, ...]
    any: float  # the probability that any of the words is lacking

    def runs(self, kind: FindingKind, threshold: float) -> tuple[Finding, ...]:
        """Joins neighbours whose probability reaches the threshold; the likeliest run is first."""
        found, start = [], None
        for place, probability in enumerate((*self.probabilities, -1.0)):
            if probability >= threshold and start is None:
                start = place
            elif probability < threshold and start is not None:
                text = " ".join(self.words[start:place])
                highest = max(self.probabilities[start:place])
                found.append(Finding(kind, start, place, text, highest))
                start = None
        return tuple(sorted(found, key=lambda each: -each.probability))


@dataclass(frozen=True)
class CheckedSegment:
    """A segment as a model has judged it."""

    segment: Segment
    source: JudgedSide  # omissions
    target: JudgedSide  # additions

    def findings(self, thresholds: dict[FindingKind, float]) -> tuple[Finding, ...]:
        """Lists the findings of the kinds that have a threshold and are not ignored."""
        sides: Sequence[tuple[FindingKind, JudgedSide]] = (
            ("omission", self.source),
            ("addition", self.target),
        )
        return tuple(
            finding
            for kind, side in sides
            if kind in thresholds and kind not in self.segment.ignored
            for finding in side.runs(kind, thresholds[kind])
        )
