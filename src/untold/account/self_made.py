"""Makes damaged translations out of good ones, and learns from them how to calibrate a model.

A span of target words is deleted: the source words that the model's own links tie to it are then
omitted. A span of source words is deleted: the target words that they explain are then additions.
Nobody has to label anything, and the text may be any parallel text that the model was not trained
on. A word whose links are divided between the span and the rest has no label.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from untold.account.damage import DAMAGE_KINDS, candidate_spans, frequent_words
from untold.account.evidence import (
    SEGMENT_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    segment_evidence,
    source_evidence,
    target_evidence,
)
from untold.account.pair_account import AccountReader, PairAccount
from untold.corpus.word_spans import Span, display_spans, span_text
from untold.errors import UntoldError
from untold.storage.calibration import (
    Calibration,
    Regression,
    calibration_error,
    fit_regression,
    probability,
)

__all__ = ["SelfMade", "fit_calibration", "make_damage"]

_LACKING, _DIVIDED = (
    0.5,
    0.15,
)  # of a word's links: above the first it is lacking, below the second not
_LEAST_SEGMENTS = 20


@dataclass(frozen=True)
class SelfMade:
    """A damaged pair, with a label for each word of the side that was left whole."""

    source: str
    target: str
    side: str  # "source": its words may be omitted; "target": its words may be added
    lacking: Bool[np.ndarray, " n"]
    certain: Bool[np.ndarray, " n"]  # words that have a label
    kind: str


def make_damage(
    reader: AccountReader, accounts: Sequence[PairAccount], side: str, seed: int
) -> list[SelfMade]:
    """Damages each pair once, if possible, by a kind that is drawn at random.

    `side` is the side whose words become omissions ("source") or additions ("target"); words of the
    other side are deleted.
    """
    generator = np.random.default_rng(seed)
    sides = [_Sides.of(each, side) for each in accounts]
    frequent = frequent_words(each.texts for each in sides)
    made = []
    for account, both in zip(accounts, sides, strict=True):
        order = generator.permutation(len(DAMAGE_KINDS)).tolist()
        kinds = [DAMAGE_KINDS[k] for k in order]
        found = (_damage(reader, account, both, (kind, frequent), generator) for kind in kinds)
        made.append(next((each for each in found if each is not None), None))
    return [each for each in made if each is not None]


@dataclass(frozen=True)
class _Sides:
    """One pair, seen from the side whose words are labelled; words of the other are deleted."""

    side: str
    whole: tuple[Span, ...]
    cut: tuple[Span, ...]
    texts: tuple[str, ...]  # the words of the other side
    ties: Float[np.ndarray, "whole cut"]  # how far each labelled word depends on each other word

    @classmethod
    def of(cls, account: PairAccount, side: str) -> "_Sides":
        source, target = display_spans(account.source), display_spans(account.target)
        if side == "source":
            ties = _merge_ties(account.links.T, source, target)
            texts = tuple(span_text(account.target, span) for span in target)
            return cls(side, source, target, texts, ties)
        ties = _merge_ties(account.origins, target, source)
        texts = tuple(span_text(account.source, span) for span in source)
        return cls(side, target, source, texts, ties)


def _merge_ties(
    values: Float[np.ndarray, "n m"], rows: Sequence[Span], columns: Sequence[Span]
) -> Float[np.ndarray, "r c"]:
    """Averages over the pieces of labelled words and sums over those of the others."""
    if not rows or not columns:
        return np.zeros((len(rows), len(columns)))
    merged = np.stack([values[span.start : span.stop].mean(0) for span in rows])
    return np.stack([merged[:, span.start : span.stop].sum(1) for span in columns], axis=1)


def _damage(
    reader: AccountReader,
    account: PairAccount,
    both: _Sides,
    what: tuple[str, frozenset[str]],
    generator: np.random.Generator,
) -> SelfMade | None:
    kind, frequent = what
    for start, stop in candidate_spans(kind, both.texts, frequent, generator):
        lost = both.ties[:, start:stop].sum(1)
        lacking = lost >= _LACKING
        if not lacking.any():
            continue
        certain = lacking | (lost <= _DIVIDED)
        gone = range(both.cut[start].start, both.cut[stop - 1].stop)
        codec = reader.codec.tokenizers
        source, target = account.source, account.target
        if both.side == "source":
            target = tuple(piece for k, piece in enumerate(target) if k not in gone)
        else:
            source = tuple(piece for k, piece in enumerate(source) if k not in gone)
        texts = (
            codec.source.decode(codec.source.ids(source)),
            codec.target.decode(codec.target.ids(target)),
        )
        if all(text.strip() for text in texts):
            return SelfMade(*texts, both.side, lacking, certain, kind)
    return None


def fit_calibration(
    reader: AccountReader,
    pairs: Sequence[tuple[str, str]],
    seed: int = 1,
    advance: Callable[[int], object] | None = None,
) -> Calibration:
    """Learns the regressions from intact pairs and from as many damaged ones.

    `advance` hears of every pair that was read: each is read three times.
    """
    intact = [each for each in reader.read(pairs, advance) if each.source and each.target]
    omissions, additions = (
        _read_damage(reader, intact, side, seed, advance) for side in ("source", "target")
    )
    (omitted, has_omission), (added, has_addition) = omissions.fit(), additions.fit()
    return Calibration(
        omitted=omitted,
        added=added,
        has_omission=has_omission,
        has_addition=has_addition,
        damaged=omissions.damaged,
        segments=len(intact),
        error=omissions.held_out_error(),
    )


@dataclass(frozen=True)
class _Lessons:
    """Evidence of all words of a side, with labels, by segment: intact ones, then damaged ones."""

    names: tuple[str, ...]
    accounts: tuple[PairAccount, ...]
    evidence: tuple[Float[np.ndarray, "_ k"], ...]
    lacking: tuple[Bool[np.ndarray, " _"], ...]
    certain: tuple[Bool[np.ndarray, " _"], ...]
    intact: int  # segments

    @property
    def damaged(self) -> float:
        return 1 - self.intact / len(self.evidence)

    def fit(self) -> tuple[Regression, Regression]:
        """Fits the regressions of words and of segments."""
        words = self.fit_words(range(len(self.evidence)))
        rows = [
            segment_evidence(account, words.log_odds(own, words.prior))
            for account, own in zip(self.accounts, self.evidence, strict=True)
        ]
        damaged = np.arange(len(rows)) >= self.intact
        return words, fit_regression(SEGMENT_EVIDENCE, np.stack(rows), damaged)

    def fit_words(self, segments: Sequence[int]) -> Regression:
        """Fits the regression of the words of these segments."""
        return fit_regression(self.names, *self._gather(segments))

    def held_out_error(self) -> float:
        """Fits on every other segment, and returns the calibration error on the rest."""
        halves = range(0, len(self.evidence), 2), range(1, len(self.evidence), 2)
        errors = []
        for learnt, held_out in (halves, halves[::-1]):
            words = self.fit_words(learnt)
            evidence, lacking = self._gather(held_out)
            chances = probability(words.log_odds(evidence, words.prior))
            errors.append(calibration_error(chances, lacking))
        return float(np.mean(errors))

    def _gather(self, segments: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        rows = [self.evidence[k][self.certain[k]] for k in segments]
        labels = [self.lacking[k][self.certain[k]] for k in segments]
        return np.concatenate(rows), np.concatenate(labels)


def _read_damage(
    reader: AccountReader,
    intact: Sequence[PairAccount],
    side: str,
    seed: int,
    advance: Callable[[int], object] | None,
) -> _Lessons:
    made = make_damage(reader, intact, side, seed)
    if len(made) < _LEAST_SEGMENTS:
        raise UntoldError(
            f"a calibration needs at least {_LEAST_SEGMENTS} segments from which something can be "
            f"deleted, not {len(made)}: give more text"
        )
    read = reader.read([(each.source, each.target) for each in made], advance)
    names = SOURCE_EVIDENCE if side == "source" else TARGET_EVIDENCE
    gather = source_evidence if side == "source" else target_evidence
    good = [gather(each, _words(each, side)) for each in intact]
    bad = [gather(each, _words(each, side)) for each in read]
    # Text that is decoded and encoded again may fall into other words: such segments are left out.
    same = [k for k, rows in enumerate(bad) if len(rows) == len(made[k].lacking)]
    return _Lessons(
        names,
        (*intact, *(read[k] for k in same)),
        (*good, *(bad[k] for k in same)),
        (*(np.zeros(len(rows), bool) for rows in good), *(made[k].lacking for k in same)),
        (*(np.ones(len(rows), bool) for rows in good), *(made[k].certain for k in same)),
        len(intact),
    )


def _words(account: PairAccount, side: str) -> tuple[Span, ...]:
    return display_spans(account.source if side == "source" else account.target)
