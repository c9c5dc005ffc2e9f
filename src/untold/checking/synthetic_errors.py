"""Makes damaged translations out of good ones, and learns from them how to calibrate a model.

A span of target words is deleted: the source words that the model's own links tie to it are then
omitted. A span of source words is deleted: the target words that they explain are then additions.
Or a target word is replaced by a word of another sentence, which is an omission and an addition.
Nobody has to label anything, and the text may be any parallel text that the model was not trained
on. A word whose links are divided between the span and the rest has no label.

Kinds of damage: which words of a sentence are deleted, as careless translators omit them.
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
from untold.corpus.words import Span, display_spans, span_text
from untold.decoding.scoring import AccountReader, PairAccount
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
_FREQUENT = 30  # the commonest words of a text are taken for function words
_PHRASE, _CLAUSE = (2, 5), (6, 12)  # words, at least and at most


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


MOST_PAIRS = 1000  # more make a calibration hardly better
_LEAST_SEGMENTS = 20
_REPLACED = "replaced"
_KINDS = (*DAMAGE_KINDS, _REPLACED)
_LACKING, _DIVIDED = 0.5, 0.15  # shares of links: lacking from the first on, whole up to the second


@dataclass(frozen=True)
class SelfMade:
    """A damaged pair, with a label for each word of one side."""

    source: str
    target: str
    lacking: Bool[np.ndarray, " n"]
    certain: Bool[np.ndarray, " n"]  # words that have a label
    kind: str
    place: int = 0  # of the pair that it was made of


def make_damage(
    reader: AccountReader, accounts: Sequence[PairAccount], side: str, seed: int
) -> list[SelfMade]:
    """Damages each pair once, if possible, in a way that is drawn at random.

    `side` is the side whose words are labelled: those of the "source" become omissions, those of
    the "target" additions.
    """
    damager = _Damager(reader, accounts, side, np.random.default_rng(seed))
    made = enumerate(damager.damage(each) for each in accounts)
    return [replace(each, place=place) for place, each in made if each is not None]


class _Damager:
    """Draws the kind and the place of the damage."""

    def __init__(
        self,
        reader: AccountReader,
        accounts: Sequence[PairAccount],
        side: str,
        generator: np.random.Generator,
    ) -> None:
        self.tokenizers, self.side, self.generator = reader.codec.tokenizers, side, generator
        cut = [_other_side(each, side) for each in accounts]
        self.frequent = frequent_words(_texts(pieces) for pieces in cut)
        self.frequent_targets = frequent_words(_texts(each.target) for each in accounts)
        # Words that stand in for others, as pieces, from the targets of all pairs.
        self.pool = [
            each.target[span.start : span.stop]
            for each in accounts
            for span in display_spans(each.target)
            if is_content_word(span_text(each.target, span), self.frequent_targets)
        ]

    def damage(self, account: PairAccount) -> SelfMade | None:
        """Tries the kinds in random order; None means that none is possible."""
        if not display_spans(account.source) or not display_spans(account.target):
            return None
        ties = self._ties(account)
        for place in self.generator.permutation(len(_KINDS)).tolist():
            kind = _KINDS[place]
            if kind == _REPLACED:
                found = self._replace(account, ties)
            else:
                found = self._delete(account, ties, kind)
            if found is not None:
                return found
        return None

    def _delete(self, account: PairAccount, ties: np.ndarray, kind: str) -> SelfMade | None:
        """Deletes words of the other side; those that depend on them are then lacking."""
        pieces = _other_side(account, self.side)
        spans, texts = display_spans(pieces), _texts(pieces)
        for start, stop in candidate_spans(kind, texts, self.frequent, self.generator):
            gone = spans[start].start, spans[stop - 1].stop
            labels = _labels(ties, gone)
            if labels is not None:
                rest = (*pieces[: gone[0]], *pieces[gone[1] :])
                changed = (
                    (account.source, rest) if self.side == "source" else (rest, account.target)
                )
                return self._made(*changed, labels, kind)
        return None

    def _replace(self, account: PairAccount, ties: np.ndarray) -> SelfMade | None:
        """Puts other words in the place of target words, as a wrong translation does."""
        spans, texts = display_spans(account.target), _texts(account.target)
        candidates = candidate_spans("word", texts, self.frequent_targets, self.generator)
        for start, stop in candidates:
            gone = spans[start].start, spans[stop - 1].stop
            drawn = self.pool[int(self.generator.integers(len(self.pool)))]
            if self.side == "source":
                labels = _labels(ties, gone)
            else:
                lacking = np.array([start <= k < stop for k in range(len(spans))])
                labels = lacking, np.ones(len(spans), bool)
            if labels is not None and _texts(drawn)[0] not in texts:
                target = (*account.target[: gone[0]], *drawn, *account.target[gone[1] :])
                return self._made(account.source, target, labels, _REPLACED)
        return None

    def _ties(self, account: PairAccount) -> Float[np.ndarray, "m1 n"]:
        """Sums up the links of each word of the side to the pieces of the other one, up to each."""
        if self.side == "source":
            links, words = account.links, display_spans(account.source)
        else:
            links, words = account.origins.T, display_spans(account.target)
        ties = np.stack([links[:, word.start : word.stop].mean(1) for word in words], axis=1)
        return np.concatenate([np.zeros((1, len(words))), ties.cumsum(0, dtype=np.float64)])

    def _made(
        self,
        source: Sequence[str],
        target: Sequence[str],
        labels: tuple[np.ndarray, np.ndarray],
        kind: str,
    ) -> SelfMade | None:
        one, other = self.tokenizers.source, self.tokenizers.target
        texts = one.decode(one.ids(source)), other.decode(other.ids(target))
        if not all(text.strip() for text in texts):
            return None
        return SelfMade(texts[0], texts[1], labels[0], labels[1], kind)


def _other_side(account: PairAccount, side: str) -> tuple[str, ...]:
    return account.target if side == "source" else account.source


def _labels(ties: np.ndarray, gone: tuple[int, int]) -> tuple[np.ndarray, np.ndarray] | None:
    """Finds which words depend on the pieces that are gone; None if no word does."""
    lost = ties[gone[1]] - ties[gone[0]]
    lacking = lost >= _LACKING
    return (lacking, lacking | (lost <= _DIVIDED)) if lacking.any() else None


def _texts(pieces: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(span_text(pieces, span) for span in display_spans(pieces))


def fit_calibration(
    reader: AccountReader,
    pairs: Sequence[tuple[str, str]],
    seed: int = 1,
    advance: Callable[[int], object] | None = None,
) -> Calibration:
    """Learns the regressions from intact pairs and from as many damaged ones.

    Of more than MOST_PAIRS it draws as many, and leaves out those too long to read. `advance` hears
    of every pair that was read: each is read three times.
    """
    order = np.random.default_rng(seed).permutation(len(pairs))
    chosen = [pairs[k] for k in sorted(order[:MOST_PAIRS].tolist())]
    chosen = [pair for pair, fits in zip(chosen, reader.fits(chosen), strict=True) if fits]
    intact = [
        each
        for each in reader.read(chosen, advance)
        if display_spans(each.source) and display_spans(each.target)
    ]
    omissions, additions = (
        _read_damage(reader, intact, side, seed, advance) for side in ("source", "target")
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
    accounts: tuple[PairAccount, ...]
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

    def fit_shares(self) -> Regression:
        """Fits the regression of source words by their shares alone."""
        shares = [share_evidence(each, display_spans(each.source)) for each in self.accounts]
        by_shares = replace(self, names=SHARE_EVIDENCE, evidence=tuple(shares))
        return by_shares.fit_words(range(len(shares)))

    def held_out_error(self) -> float:
        """Fits on every other pair, intact and damaged, and returns the error on the rest."""
        halves = [
            [k for k, place in enumerate(self.places) if place % 2 == half] for half in (0, 1)
        ]
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
    fits = reader.fits([(each.source, each.target) for each in made])
    made = [each for each, kept in zip(made, fits, strict=True) if kept]
    read = reader.read([(each.source, each.target) for each in made], advance)
    names = SOURCE_EVIDENCE if side == "source" else TARGET_EVIDENCE
    gather = source_evidence if side == "source" else target_evidence
    good = [gather(each, _words(each, side)) for each in intact]
    bad = [gather(each, _words(each, side)) for each in read]
    # Text that is decoded and encoded again may fall into other words: such segments are left out.
    same = [k for k, rows in enumerate(bad) if len(rows) == len(made[k].lacking)]
    if len(same) < _LEAST_SEGMENTS:
        raise UntoldError(
            f"a calibration needs at least {_LEAST_SEGMENTS} segments from which something can be "
            f"deleted, not {len(same)}: give more text"
        )
    return _Lessons(
        names,
        (*intact, *(read[k] for k in same)),
        (*good, *(bad[k] for k in same)),
        (*(np.zeros(len(rows), bool) for rows in good), *(made[k].lacking for k in same)),
        (*(np.ones(len(rows), bool) for rows in good), *(made[k].certain for k in same)),
        (*range(len(intact)), *(made[k].place for k in same)),
        len(intact),
    )


def _words(account: PairAccount, side: str) -> tuple[Span, ...]:
    return display_spans(account.source if side == "source" else account.target)
