"""Makes damaged translations out of good ones, and learns from them how to calibrate a model.

A span of target words is deleted, as careless translators omit words: the source words that the
model's own links tie to it are then omitted. A span of source words is deleted: the target words
that they explain are then additions. Or a target word is replaced by a word of another sentence,
which is an omission and an addition. Nobody has to label anything, and the text may be any parallel
text that the model was not trained on. A word whose links are divided between the span and the rest
has no label.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from untold.checking.evidence import (
    segment_evidence,
    share_evidence,
    source_evidence,
    target_evidence,
)
from untold.corpus.words import Word
from untold.corpus.words import words as split_words
from untold.decoding.scoring import PairReader, ReadPair
from untold.errors import UntoldError
from untold.storage.calibration import (
    SEGMENT_EVIDENCE,
    SHARE_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    Calibration,
    Regression,
    calibration_error,
    fit_regression,
    probability,
)

DAMAGE_KINDS = ("word", "phrase", "clause", "end")
MOST_PAIRS = 1000  # more make a calibration hardly better
_FREQUENT = 30  # the commonest words of a text are taken for function words
_PHRASE, _CLAUSE = (2, 5), (6, 12)  # words, at least and at most
_LEAST_SEGMENTS = 20
_REPLACED = "replaced"
_KINDS = (*DAMAGE_KINDS, _REPLACED)
_LACKING, _DIVIDED = 0.5, 0.15  # shares of links: lacking from the first on, whole up to the second


def frequent_words(sentences: Iterable[Sequence[str]], count: int = _FREQUENT) -> frozenset[str]:
    """Finds the commonest words of a text, which stand in for function words in any language."""
    counts = Counter(word for words in sentences for word in words)
    return frozenset(word for word, _ in counts.most_common(count))


def is_content_word(word: str, frequent: frozenset[str]) -> bool:
    """Tells whether a word has a letter or digit and is not among the frequent ones."""
    return word not in frequent and any(letter.isalnum() for letter in word)


def candidate_spans(
    kind: str, words: Sequence[str], frequent: frozenset[str], generator: np.random.Generator
) -> list[tuple[int, int]]:
    """Lists spans [start, stop) that may be deleted, in random order.

    `word` is one content word, `phrase` 2 to 5 words, `clause` 6 to 12 but at most two thirds of
    all, and `end` what follows some word of the second half. The last word stays if it is
    punctuation: a missing full stop would give the damage away.
    """
    stop = len(words)
    if stop and not any(letter.isalnum() for letter in words[-1]):
        stop -= 1
    if kind == "word":
        spans = [(k, k + 1) for k in range(stop) if is_content_word(words[k], frequent)]
    elif kind == "end":
        spans = [(k, stop) for k in range(max(1, (len(words) + 1) // 2), stop)]
    else:
        least, most = _PHRASE if kind == "phrase" else _CLAUSE
        most = min(most, len(words) * 2 // 3)
        sizes = range(least, most + 1)
        spans = [(k, k + size) for size in sizes for k in range(stop - size + 1)]
    spans = [span for span in spans if span != (0, len(words))]  # something must be left
    return [spans[k] for k in generator.permutation(len(spans))]


@dataclass(frozen=True)
class DamagedPair:
    """A damaged pair, with a label for each word of one side."""

    source: str
    target: str
    lacking: Bool[np.ndarray, " n"]
    certain: Bool[np.ndarray, " n"]  # words that have a label
    kind: str
    place: int = 0  # of the pair that it was made of


def make_damage(
    reader: PairReader, pairs: Sequence[ReadPair], side: str, seed: int
) -> list[DamagedPair]:
    """Damages each pair once, if possible, in a way that is drawn at random.

    `side` is the side whose words are labelled: those of the "source" become omissions, those of
    the "target" additions.
    """
    damager = _Damager(reader, pairs, side, np.random.default_rng(seed))
    damaged = enumerate(damager.damage(pair) for pair in pairs)
    return [replace(pair, place=place) for place, pair in damaged if pair is not None]


class _Damager:
    """Draws the kind and the place of the damage."""

    def __init__(
        self,
        reader: PairReader,
        pairs: Sequence[ReadPair],
        side: str,
        generator: np.random.Generator,
    ) -> None:
        self.tokenizers, self.side, self.generator = reader.codec.tokenizers, side, generator
        self.frequent = frequent_words(_texts(self._cut(pair)[1]) for pair in pairs)
        self.frequent_targets = frequent_words(_texts(pair.target_words) for pair in pairs)
        # Words that stand in for others, as pieces, from the targets of all pairs.
        self.pool = [
            pair.target[word.pieces]
            for pair in pairs
            for word in pair.target_words
            if is_content_word(word.read_as, self.frequent_targets)
        ]

    def damage(self, pair: ReadPair) -> DamagedPair | None:
        """Tries the kinds in random order; None means that none is possible."""
        if not pair.source_words or not pair.target_words:
            return None
        ties = self._ties(pair)
        for place in self.generator.permutation(len(_KINDS)).tolist():
            kind = _KINDS[place]
            if kind == _REPLACED:
                damaged = self._replace(pair, ties)
            else:
                damaged = self._delete(pair, ties, kind)
            if damaged is not None:
                return damaged
        return None

    def _cut(self, pair: ReadPair) -> tuple[tuple[str, ...], tuple[Word, ...]]:
        """Returns pieces and words of the side that words are deleted from."""
        if self.side == "source":
            return pair.target, pair.target_words
        return pair.source, pair.source_words

    def _delete(self, pair: ReadPair, ties: np.ndarray, kind: str) -> DamagedPair | None:
        """Deletes words of the other side; those that depend on them are then lacking."""
        pieces, words = self._cut(pair)
        for start, stop in candidate_spans(kind, _texts(words), self.frequent, self.generator):
            gone = _pieces_of(words, start, stop)
            labels = _labels(ties, gone)
            if labels is not None:
                rest = (*pieces[: gone.start], *pieces[gone.stop :])
                changed = (pair.source, rest) if self.side == "source" else (rest, pair.target)
                return self._decode(*changed, labels, kind)
        return None

    def _replace(self, pair: ReadPair, ties: np.ndarray) -> DamagedPair | None:
        """Puts other words in the place of target words, as a wrong translation does."""
        words, texts = pair.target_words, _texts(pair.target_words)
        candidates = candidate_spans("word", texts, self.frequent_targets, self.generator)
        for start, stop in candidates:
            gone = _pieces_of(words, start, stop)
            drawn = self.pool[int(self.generator.integers(len(self.pool)))]
            if self.side == "source":
                labels = _labels(ties, gone)
            else:
                lacking = np.array([start <= k < stop for k in range(len(words))])
                labels = lacking, np.ones(len(words), bool)
            if labels is not None and split_words("", drawn)[0].read_as not in texts:
                target = (*pair.target[: gone.start], *drawn, *pair.target[gone.stop :])
                return self._decode(pair.source, target, labels, _REPLACED)
        return None

    def _ties(self, pair: ReadPair) -> Float[np.ndarray, "m1 n"]:
        """Sums up the links of each word of the side to the pieces of the other one, up to each."""
        links = pair.links if self.side == "source" else pair.origins.T
        words = _side_words(pair, self.side)
        ties = np.stack([links[:, word.pieces].mean(1) for word in words], axis=1)
        return np.concatenate([np.zeros((1, len(words))), ties.cumsum(0, dtype=np.float64)])

    def _decode(
        self,
        source: Sequence[str],
        target: Sequence[str],
        labels: tuple[np.ndarray, np.ndarray],
        kind: str,
    ) -> DamagedPair | None:
        """Writes damaged pieces as texts; None if nothing is left of a side."""
        one, other = self.tokenizers.source, self.tokenizers.target
        texts = one.decode(one.ids(source)), other.decode(other.ids(target))
        if not all(text.strip() for text in texts):
            return None
        return DamagedPair(texts[0], texts[1], labels[0], labels[1], kind)


def _texts(words: Sequence[Word]) -> tuple[str, ...]:
    return tuple(word.read_as for word in words)


def _side_words(pair: ReadPair, side: str) -> tuple[Word, ...]:
    return pair.source_words if side == "source" else pair.target_words


def _pieces_of(words: Sequence[Word], start: int, stop: int) -> slice:
    return slice(words[start].pieces.start, words[stop - 1].pieces.stop)


def _labels(ties: np.ndarray, gone: slice) -> tuple[np.ndarray, np.ndarray] | None:
    """Finds which words depend on the pieces that are gone; None if no word does."""
    lost = ties[gone.stop] - ties[gone.start]
    lacking = lost >= _LACKING
    return (lacking, lacking | (lost <= _DIVIDED)) if lacking.any() else None


def fit_calibration(
    reader: PairReader,
    pairs: Sequence[tuple[str, str]],
    seed: int = 1,
    on_progress: Callable[[int], object] | None = None,
) -> Calibration:
    """Learns the regressions from intact pairs and from as many damaged ones.

    Of more than MOST_PAIRS it draws as many, and leaves out those too long to read. `on_progress`
    hears of every pair that was read: each is read three times.
    """
    order = np.random.default_rng(seed).permutation(len(pairs))
    encoded = reader.encode([pairs[k] for k in sorted(order[:MOST_PAIRS].tolist())])
    read = reader.read([pair for pair in encoded if reader.fits(pair)], on_progress)
    intact = [pair for pair in read if pair.source_words and pair.target_words]
    omissions, additions = (
        _read_damage(reader, intact, make_damage(reader, intact, side, seed), side, on_progress)
        for side in ("source", "target")
    )
    (omitted, has_omission), (added, has_addition) = omissions.fit(), additions.fit()
    return Calibration(
        omitted=omitted,
        added=added,
        has_omission=has_omission,
        has_addition=has_addition,
        by_shares=omissions.fit_shares(),
        damaged=omissions.damaged,
        segments=len(intact),
        error=omissions.held_out_error(),
    )


@dataclass(frozen=True)
class _Lessons:
    """Evidence of all words of a side, with labels, by segment: intact ones, then damaged ones."""

    names: tuple[str, ...]
    pairs: tuple[ReadPair, ...]
    evidence: tuple[Float[np.ndarray, "_ k"], ...]
    lacking: tuple[Bool[np.ndarray, " _"], ...]
    certain: tuple[Bool[np.ndarray, " _"], ...]
    places: tuple[int, ...]  # of the pairs that the segments are, or were made of
    intact: int  # segments

    @property
    def damaged(self) -> float:
        return 1 - self.intact / len(self.evidence)

    def fit(self) -> tuple[Regression, Regression]:
        """Fits the regressions of words and of segments."""
        of_words = self.fit_words(range(len(self.evidence)))
        rows = [
            segment_evidence(pair, of_words.log_odds(evidence, of_words.prior))
            for pair, evidence in zip(self.pairs, self.evidence, strict=True)
        ]
        damaged = np.arange(len(rows)) >= self.intact
        return of_words, fit_regression(SEGMENT_EVIDENCE, np.stack(rows), damaged)

    def fit_words(self, segments: Sequence[int]) -> Regression:
        """Fits the regression of the words of these segments."""
        return fit_regression(self.names, *self._gather(segments))

    def fit_shares(self) -> Regression:
        """Fits the regression of source words by their shares alone."""
        shares = tuple(share_evidence(pair, pair.source_words) for pair in self.pairs)
        by_shares = replace(self, names=SHARE_EVIDENCE, evidence=shares)
        return by_shares.fit_words(range(len(shares)))

    def held_out_error(self) -> float:
        """Fits on every other pair, intact and damaged, and returns the error on the rest."""
        halves = [
            [k for k, place in enumerate(self.places) if place % 2 == half] for half in (0, 1)
        ]
        errors = []
        for learnt, held_out in (halves, halves[::-1]):
            of_words = self.fit_words(learnt)
            evidence, lacking = self._gather(held_out)
            chances = probability(of_words.log_odds(evidence, of_words.prior))
            errors.append(calibration_error(chances, lacking))
        return float(np.mean(errors))

    def _gather(self, segments: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        rows = [self.evidence[k][self.certain[k]] for k in segments]
        labels = [self.lacking[k][self.certain[k]] for k in segments]
        return np.concatenate(rows), np.concatenate(labels)


def _read_damage(
    reader: PairReader,
    intact: Sequence[ReadPair],
    damaged: Sequence[DamagedPair],
    side: str,
    on_progress: Callable[[int], object] | None,
) -> _Lessons:
    encoded = reader.encode([(pair.source, pair.target) for pair in damaged])
    short = [k for k, pair in enumerate(encoded) if reader.fits(pair)]
    read = reader.read([encoded[k] for k in short], on_progress)
    names = SOURCE_EVIDENCE if side == "source" else TARGET_EVIDENCE
    gather = source_evidence if side == "source" else target_evidence
    good = [gather(pair, _side_words(pair, side)) for pair in intact]
    bad = [
        (damaged[k], pair, gather(pair, _side_words(pair, side)))
        for k, pair in zip(short, read, strict=True)
    ]
    # Text that is decoded and encoded again may fall into other words: such segments are left out.
    bad = [(pair, told, rows) for pair, told, rows in bad if len(rows) == len(pair.lacking)]
    if len(bad) < _LEAST_SEGMENTS:
        raise UntoldError(
            f"a calibration needs at least {_LEAST_SEGMENTS} segments from which something can be "
            f"deleted, not {len(bad)}: give more text"
        )
    return _Lessons(
        names,
        (*intact, *(told for _, told, _ in bad)),
        (*good, *(rows for _, _, rows in bad)),
        (*(np.zeros(len(rows), bool) for rows in good), *(pair.lacking for pair, _, _ in bad)),
        (*(np.ones(len(rows), bool) for rows in good), *(pair.certain for pair, _, _ in bad)),
        (*range(len(intact)), *(pair.place for pair, _, _ in bad)),
        len(intact),
    )
