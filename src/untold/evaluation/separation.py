"""Measures the separation of past, future and redundant against word alignments.

Step t is the state before target word t is produced (t = 0 .. T; at T only the end is left). The
sure links of a source word give its true category at each step: PAST if all of its target words are
produced, FUTURE if none is, REDUNDANT if it has none. A word between its first and its last target
word has no category and is not counted. A cell is one source word at one step.

The position rule "word i of I is past when i/I < t/T" is the baseline of every figure. It is right
on most cells of a monotone corpus; therefore some figures count only the cells where it is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from untold.account.model_links import flip_steps, turning_links
from untold.categories import FUTURE, PAST, REDUNDANT
from untold.corpus.alignments import Alignment, alignment_error_rate

__all__ = [
    "PairTrace",
    "Separation",
    "auc",
    "measure_separation",
    "omission_auc",
    "position_rule",
]

_BINS = 4  # past_course has values at t/T = 0, 1/4, .. 1


@dataclass(frozen=True)
class PairTrace:
    """Holds the shares of every source word at every step of a pair, and its gold alignment."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    shares: Float[np.ndarray, "t1 i 3"]  # t1 = T + 1
    alignment: Alignment

    def __post_init__(self) -> None:
        self.alignment.check(self.source, self.target, "alignment")


@dataclass(frozen=True)
class Separation:
    """Holds the figures of a corpus; None means that there was nothing to measure."""

    auc: float | None  # of P/(P+F): past cells against future cells
    accuracy: float | None  # of the larger one of P and F, on past and future cells
    accuracy_off_rule: float | None  # the same where the position rule is wrong
    category_accuracy: float | None  # of the largest of all three, on all cells
    category_accuracy_off_rule: float | None
    flips: float | None  # share of words that turn within one step of their last target word
    redundant_auc: float | None  # of a word's mean R: words without links against the others
    past_course: tuple[float, ...]  # mean P of linked words at t/T = 0, 1/4, 1/2, 3/4, 1
    future_start: float | None  # mean F of linked content words at the first step ...
    future_end: float | None  # ... and at the last
    aer: float | None  # of the links (word, target word after which it turns)


def measure_separation(traces: Sequence[PairTrace]) -> Separation:
    """Computes all figures from the traces of sentence pairs."""
    cells = [_Cells.of(trace) for trace in traces]
    share = np.concatenate([c.share for c in cells]) if cells else np.zeros(0)
    past = np.concatenate([c.past for c in cells]) if cells else np.zeros(0, bool)
    off = np.concatenate([c.off_rule for c in cells]) if cells else np.zeros(0, bool)
    right = (share > 0.5) == past
    best = np.concatenate([c.category_right for c in cells]) if cells else np.zeros(0, bool)
    among = np.concatenate([c.category_off_rule for c in cells]) if cells else np.zeros(0, bool)
    words = [word for trace in traces for word in _words(trace)]
    linked = [word for word in words if word.last is not None]
    content = [word for word in linked if word.is_content]
    return Separation(
        auc=auc(share[past], share[~past]),
        accuracy=_mean(right),
        accuracy_off_rule=_mean(right[off]),
        category_accuracy=_mean(best),
        category_accuracy_off_rule=_mean(best[among]),
        flips=_mean([word.flips_in_time for word in linked]),
        redundant_auc=auc(
            np.array([w.redundant for w in words if w.last is None]),
            np.array([w.redundant for w in linked]),
        ),
        past_course=_course(traces),
        future_start=_mean([w.future_start for w in content]),
        future_end=_mean([w.future_end for w in content]),
        aer=_aer(traces),
    )


def position_rule(trace: PairTrace) -> PairTrace:
    """Replaces the shares of a pair by those of the position rule."""
    steps, size = trace.shares.shape[:2]
    reached = np.arange(steps)[:, None] / max(1, steps - 1)
    past = np.arange(size)[None] / max(1, size) < reached
    shares = np.stack([past, ~past, np.zeros_like(past)], axis=-1).astype(np.float32)
    return PairTrace(trace.source, trace.target, shares, trace.alignment)


def omission_auc(traces: Sequence[PairTrace], omitted: Sequence[np.ndarray]) -> float | None:
    """Computes the AUC of F at the last step: omitted words against all others.

    The targets of the traces lack a phrase; `omitted` flags the source words that it translated.
    Words without a link are not counted.
    """
    scores, labels = [], []
    for trace, missing in zip(traces, omitted, strict=True):
        linked = np.array([bool(trace.alignment.targets(i)) for i in range(len(missing))], bool)
        counted = missing | linked
        scores.append(trace.shares[-1, counted, FUTURE])
        labels.append(missing[counted])
    if not scores:
        return None
    values, flags = np.concatenate(scores), np.concatenate(labels)
    return auc(values[flags], values[~flags])


def auc(positive: Float[np.ndarray, " p"], negative: Float[np.ndarray, " n"]) -> float | None:
    """Returns the probability that a positive value is above a negative one; ties count half."""
    if not len(positive) or not len(negative):
        return None
    _, inverse, counts = np.unique(
        np.concatenate([positive, negative]), return_inverse=True, return_counts=True
    )
    ranks = np.cumsum(counts) - (counts - 1) / 2
    total = float(ranks[inverse.reshape(-1)[: len(positive)]].sum())
    least = len(positive) * (len(positive) + 1) / 2
    return (total - least) / (len(positive) * len(negative))


@dataclass(frozen=True)
class _Cells:
    """Holds n cells of one pair that are past or future, and m cells that have a category."""

    share: Float[np.ndarray, " n"]  # P/(P+F)
    past: Bool[np.ndarray, " n"]
    off_rule: Bool[np.ndarray, " n"]
    category_right: Bool[np.ndarray, " m"]
    category_off_rule: Bool[np.ndarray, " m"]

    @classmethod
    def of(cls, trace: PairTrace) -> "_Cells":
        gold = _gold(trace)
        shares, rule = trace.shares, position_rule(trace).shares[..., PAST] > 0
        moving = (gold == PAST) | (gold == FUTURE)
        known = moving | (gold == REDUNDANT)
        total = shares[..., PAST] + shares[..., FUTURE]
        ratio = np.where(total > 0, shares[..., PAST] / np.maximum(total, 1e-30), 0.5)
        wrong = moving & (rule != (gold == PAST))
        return cls(
            ratio[moving].astype(np.float64),
            gold[moving] == PAST,
            wrong[moving],
            (shares.argmax(-1) == gold)[known],
            wrong[known],
        )


def _gold(trace: PairTrace) -> Int[np.ndarray, "t1 i"]:
    """Returns the true category of each cell; -1 marks words that are produced in part."""
    steps, size = trace.shares.shape[:2]
    gold = np.full((steps, size), REDUNDANT)
    for word in range(size):
        if targets := trace.alignment.targets(word):
            gold[:, word] = -1
            gold[: targets[0] + 1, word] = FUTURE
            gold[targets[-1] + 1 :, word] = PAST
    return gold


@dataclass(frozen=True)
class _WordCourse:
    """Summarises one source word over all steps."""

    last: int | None  # position of its last target word
    flip: int | None  # the step at which it turns to past, if it does
    redundant: float
    future_start: float
    future_end: float
    is_content: bool

    @property
    def flips_in_time(self) -> bool:
        if self.flip is None or self.last is None:
            return False
        return abs(self.flip - 1 - self.last) <= 1


def _words(trace: PairTrace) -> Iterator[_WordCourse]:
    flips, redundant = flip_steps(trace.shares), trace.shares[..., REDUNDANT].mean(0)
    for i, text in enumerate(trace.source):
        targets = trace.alignment.targets(i)
        yield _WordCourse(
            last=targets[-1] if targets else None,
            flip=int(flips[i]) if 0 < flips[i] < len(trace.shares) else None,
            redundant=float(redundant[i]),
            future_start=float(trace.shares[0, i, FUTURE]),
            future_end=float(trace.shares[-1, i, FUTURE]),
            is_content=any(letter.isalnum() for letter in text),
        )


def _course(traces: Sequence[PairTrace]) -> tuple[float, ...]:
    columns: list[list[float]] = [[] for _ in range(_BINS + 1)]
    for trace in traces:
        linked = [i for i in range(len(trace.source)) if trace.alignment.targets(i)]
        if not linked:
            continue
        past = trace.shares[:, linked, PAST].mean(1)
        for bin, column in enumerate(columns):
            column.append(float(past[round(bin / _BINS * (len(past) - 1))]))
    return tuple(float(np.mean(column)) for column in columns if column)


def _aer(traces: Sequence[PairTrace]) -> float | None:
    links = (turning_links(trace.shares) for trace in traces)
    found = (Alignment(each, each) for each in links)
    return alignment_error_rate(found, (trace.alignment for trace in traces))


def _mean(values: Sequence[float] | Sequence[bool] | np.ndarray) -> float | None:
    return float(np.mean(values)) if len(values) else None
