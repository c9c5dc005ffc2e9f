"""Judges segments with a calibrated model: one pass each, in batches, as they are read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from untold.account.judgement import EXPECTED, judge_pair
from untold.account.pair_account import NO_ACCOUNT, AccountReader, PairAccount
from untold.checking.finding import CheckedSegment, JudgedSide
from untold.checking.segment import Damage, Segment
from untold.errors import UntoldError
from untold.introspection.sentence_sides import displayed_words
from untold.storage.calibration import Calibration
from untold.translator import Translator

__all__ = ["Checker", "check_segments"]

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
