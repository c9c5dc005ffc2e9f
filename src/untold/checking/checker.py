"""Judges segments with a calibrated model: a probability for every word, and suspicious runs.

Segments are read in batches as they come; each is encoded once and costs one pass of the model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from untold.checking.evidence import EXPECTED, judge_pair
from untold.checking.segments import Damage, FindingKind, Segment
from untold.corpus.words import Word
from untold.decoding.scoring import CANNOT_TELL, EncodedPair, PairReader, ReadPair
from untold.errors import UntoldError
from untold.storage.calibration import Calibration
from untold.storage.model_directory import TrainedModel

_SEGMENTS_AT_ONCE = 256  # that are read before the first of them is judged


@dataclass(frozen=True)
class Finding:
    """A run of words of one side of a segment that are probably missing on the other one."""

    kind: FindingKind
    start: int  # the words start .. stop - 1 of the side
    stop: int
    text: str
    probability: float  # of the most suspicious word
    characters: tuple[int, int] | None  # [start, stop) in the text of the side, if they are there


@dataclass(frozen=True)
class JudgedSide:
    """The words of a side, and for each the probability that the other side lacks it."""

    words: tuple[Word, ...]
    probabilities: tuple[float, ...]
    any: float  # the probability that any of the words is lacking

    def runs(self, kind: FindingKind, threshold: float) -> tuple[Finding, ...]:
        """Joins neighbours whose probability reaches the threshold; the likeliest run is first."""
        findings, start = [], None
        for place, probability in enumerate((*self.probabilities, -1.0)):
            if probability >= threshold and start is None:
                start = place
            elif probability < threshold and start is not None:
                findings.append(self._finding(kind, start, place))
                start = None
        return tuple(sorted(findings, key=lambda finding: -finding.probability))

    def _finding(self, kind: FindingKind, start: int, stop: int) -> Finding:
        words, characters = self.words[start:stop], None
        first, last = words[0].characters, words[-1].characters
        if first is not None and last is not None:
            characters = first[0], last[1]
        text = " ".join(word.text for word in words)
        return Finding(kind, start, stop, text, max(self.probabilities[start:stop]), characters)


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


class Checker:
    """Judges pairs of texts by the first of some models that is calibrated."""

    def __init__(
        self, models: Sequence[TrainedModel], batch_tokens: int, expected: float = EXPECTED
    ) -> None:
        """`expected` is the share of segments that lack or add something."""
        separating = [trained for trained in models if trained.model.past_future is not None]
        if not separating:
            raise UntoldError(CANNOT_TELL)
        calibrated = [trained for trained in separating if trained.calibration is not None]
        if not calibrated:
            raise UntoldError(
                "the model is not calibrated, so it has no probabilities: run untold calibrate "
                "MODEL --source F --target F with some hundred pairs that it was not trained on"
            )
        self.model = calibrated[0]
        assert self.model.calibration is not None
        self.calibration: Calibration = self.model.calibration
        self.expected = expected
        self.reader = PairReader(self.model, batch_tokens)

    def check(self, segments: Sequence[Segment]) -> list[CheckedSegment | Segment]:
        """Judges the segments of a list together; one that cannot be judged says why."""
        encoded = self.reader.encode([(segment.source, segment.target) for segment in segments])
        pairs = zip(segments, encoded, strict=True)
        reasons = [self._why_unchecked(segment, pair) for segment, pair in pairs]
        read = iter(self.reader.read([encoded[k] for k, why in enumerate(reasons) if not why]))
        return [
            replace(segment, unchecked=why) if why else self._judge(segment, next(read))
            for segment, why in zip(segments, reasons, strict=True)
        ]

    def _why_unchecked(self, segment: Segment, pair: EncodedPair) -> str:
        """Gives a reason to segments that no model can judge."""
        if segment.unchecked:
            return segment.unchecked
        if not segment.source.strip() or not segment.target.strip():
            return "empty"
        return "" if self.reader.fits(pair) else "too long"

    def _judge(self, segment: Segment, pair: ReadPair) -> CheckedSegment | Segment:
        if not pair.source_words or not pair.target_words:  # blank for the tokenizer
            return replace(segment, unchecked="empty")
        judged = judge_pair(pair, self.calibration, self.expected)
        return CheckedSegment(
            segment,
            JudgedSide(pair.source_words, *judged.omission),
            JudgedSide(pair.target_words, *judged.addition),
        )


def check_segments(
    trained: TrainedModel,
    segments: Iterable[Segment | Damage],
    expected: float = EXPECTED,
) -> Iterator[CheckedSegment | Segment | Damage]:
    """Judges segments as they are read, in their order; damaged places pass through.

    A Segment comes out as itself if it was not judged: `unchecked` says why.
    """
    checker = Checker([trained], trained.config.decode.batch_tokens, expected)
    stream = iter(segments)
    while group := list(islice(stream, _SEGMENTS_AT_ONCE)):
        judged = iter(checker.check([item for item in group if isinstance(item, Segment)]))
        for item in group:
            yield item if isinstance(item, Damage) else next(judged)
