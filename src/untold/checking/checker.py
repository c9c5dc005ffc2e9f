"""Judges segments with a calibrated model: one pass each, in batches, as they are read.

Holds what a check says of a segment: a probability for every word, and suspicious runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from untold.checking.judgement import EXPECTED, judge_pair
from untold.checking.segments import Damage, FindingKind, Segment
from untold.decoding.scoring import NO_ACCOUNT, AccountReader, PairAccount
from untold.errors import UntoldError
from untold.explain.explanation import displayed_words
from untold.storage.calibration import Calibration
from untold.translator import Translator


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


_SEGMENTS_AT_ONCE = 256  # that are read before the first of them is judged


class Checker:
    """Judges pairs of texts; `expected` is the share of segments that lack or add something."""

    def __init__(self, translator: Translator, expected: float = EXPECTED) -> None:
        separating = [each for each in translator.models if each.model.past_future is not None]
        if not separating:
            raise UntoldError(NO_ACCOUNT)
        calibrated = [each for each in separating if each.calibration is not None]
        if not calibrated:
            raise UntoldError(
                "the model is not calibrated, so it has no probabilities: run untold calibrate "
                "MODEL --source F --target F with some hundred pairs that it was not trained on"
            )
        self.model = calibrated[0]
        assert self.model.calibration is not None
        self.calibration: Calibration = self.model.calibration
        self.expected = expected
        self.reader = AccountReader(self.model, translator.decode.batch_tokens)

    def check(self, segments: Sequence[Segment]) -> list[CheckedSegment | Segment]:
        """Judges the segments of a list together; one that cannot be judged says why."""
        fits = self.reader.fits([(each.source, each.target) for each in segments])
        known = [self._screen(*each) for each in zip(segments, fits, strict=True)]
        places = [place for place, each in enumerate(known) if not each.unchecked]
        accounts = self.reader.read([(known[k].source, known[k].target) for k in places])
        found: list[CheckedSegment | Segment] = list(known)
        for place, account in zip(places, accounts, strict=True):
            found[place] = self._judge(known[place], account)
        return found

    def _screen(self, segment: Segment, fits: bool) -> Segment:
        """Gives a reason to segments that no model can judge."""
        if segment.unchecked:
            return segment
        if not segment.source.strip() or not segment.target.strip():
            return replace(segment, unchecked="empty")
        return segment if fits else replace(segment, unchecked="too long")

    def _judge(self, segment: Segment, account: PairAccount) -> CheckedSegment | Segment:
        source = displayed_words(segment.source, account.source)
        target = displayed_words(segment.target, account.target)
        if not source or not target:  # its only signs are blank for the tokenizer
            return replace(segment, unchecked="empty")
        judged = judge_pair(account, self.calibration, self.expected)
        return CheckedSegment(
            segment, JudgedSide(source, *judged.omission), JudgedSide(target, *judged.addition)
        )


def check_segments(
    translator: Translator,
    segments: Iterable[Segment | Damage],
    expected: float = EXPECTED,
) -> Iterator[CheckedSegment | Segment | Damage]:
    """Judges segments as they are read, in their order; damaged places pass through.

    A Segment comes out as itself if it was not judged: `unchecked` says why.
    """
    checker, stream = Checker(translator, expected), iter(segments)
    while group := list(islice(stream, _SEGMENTS_AT_ONCE)):
        judged = iter(checker.check([each for each in group if isinstance(each, Segment)]))
        for each in group:
            yield each if isinstance(each, Damage) else next(judged)
