"""Measures the separation of past, future and redundant against word alignments.

Step t is the state before target word t is produced (t = 0 .. T; at T only the end is left). The
sure links of a source word give its true category at each step: PAST if all of its target words are
produced, FUTURE if none is, REDUNDANT if it has none. A word between its first and its last target
word has no category and is not counted. A cell is one source word at one step.

The position rule "word i of I is past when i/I < t/T" is the baseline of every figure. It is right
on most cells of a monotone corpus; therefore some figures count only the cells where it is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from untold.alignment.model_links import flip_steps, turning_links
from untold.corpus.alignments import (
    Alignment,
    alignment_error_rate,
    check_alignments,
    read_alignments,
)
from untold.corpus.words import Word, merge_assignments, words_between_spaces
from untold.errors import UntoldError
from untold.models.signals import FUTURE, PAST, REDUNDANT
from untold.progress_bar import task
from untold.translator import Translation, Translator

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


_MEANINGS = {
    "rule": "a baseline: word i of I is taken for told at t/T = i/I, without a look at the words; "
    "a good model is better above all where this rule is wrong (off rule)",
    "auc": "higher is better, 0.5 is chance: told words rank above untold ones by P/(P+F), the "
    "share of PAST in PAST and FUTURE",
    "accuracy": "higher is better: the larger of P and F is the true one",
    "accuracy_off_rule": "higher is better: accuracy where the rule is wrong",
    "category_accuracy": "higher is better: the largest of P, F and R (REDUNDANT) is the true one",
    "category_accuracy_off_rule": "higher is better: category accuracy where the rule is wrong",
    "flips": "higher is better: words that turn from FUTURE to PAST when they are translated",
    "redundant_auc": "higher is better, 0.5 is chance: words without a link rank above others by R",
    "past at t/T = 0 .. 1": "should rise from 0 to 1: mean P of linked words from start to end",
    "future_start": "higher is better: mean F of linked words at the start",
    "future_end": "lower is better: mean F of linked words at the end",
    "aer": "lower is better: error rate of the links from each word to the place where it turns",
    "omission_word_auc": "higher is better, 0.5 is chance: words that a target leaves out rank "
    "above the others by F at its end",
}
_SEED = 1  # all models are measured with the same deleted phrases


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair with the links between its words."""

    source: str
    target: str
    alignment: Alignment


@dataclass(frozen=True)
class Omission:
    """A pair whose target lacks a phrase, with the source words that the phrase translated."""

    pair: AlignedPair
    omitted: Bool[np.ndarray, " i"]


@dataclass(frozen=True)
class SeparationReport:
    """Holds the figures of a model and of the position rule on the same pairs."""

    model: Separation
    rule: Separation
    omission_auc: float | None  # of F at the end of targets that lack a phrase

    def lines(self) -> list[str]:
        """Formats the figures as a table for the terminal."""
        shown = [f"{'':30}{'model':>8}{'rule':>8}"]
        for field in fields(Separation):
            values = getattr(self.model, field.name), getattr(self.rule, field.name)
            if field.name == "past_course":
                course = " ".join(f"{value:.2f}" for value in values[0])
                shown.append(f"{'past at t/T = 0 .. 1':30}{course}")
            else:
                shown.append(
                    f"{field.name.replace('_', ' '):30}{_cell(values[0])}{_cell(values[1])}"
                )
        return [*shown, f"{'omission word auc':30}{_cell(self.omission_auc)}"]

    def meanings(self) -> list[tuple[str, str]]:
        """Says for each line what it is and which direction is better."""
        return [(name.replace("_", " "), meaning) for name, meaning in _MEANINGS.items()]


def read_aligned_pairs(
    sources: Sequence[str], targets: Sequence[str], alignments: Path
) -> list[AlignedPair]:
    """Reads the links of given pairs from a file with one line for each pair."""
    links = read_alignments(alignments)
    words = [(s.split(), t.split()) for s, t in zip(sources, targets, strict=True)]
    check_alignments(alignments, links, words)
    return [AlignedPair(*each) for each in zip(sources, targets, links, strict=True)]


def separation_report(translator: Translator, pairs: Sequence[AlignedPair]) -> SeparationReport:
    """Measures a model on given pairs, and on the same pairs with a phrase left out."""
    traces = trace_pairs(translator, pairs)
    generator = np.random.default_rng(_SEED)
    made = (omit_phrase(pair, generator) for pair in pairs)
    omissions = [omission for omission in made if omission is not None]
    cut = trace_pairs(translator, [omission.pair for omission in omissions])
    return SeparationReport(
        measure_separation(traces),
        measure_separation([position_rule(trace) for trace in traces]),
        omission_auc(cut, [omission.omitted for omission in omissions]),
    )


def trace_pairs(translator: Translator, pairs: Sequence[AlignedPair]) -> list[PairTrace]:
    """Returns the shares of all source words before each word of the given targets."""
    if not translator.separates:
        raise UntoldError(
            "alignments measure how a model separates past and future, which this one does not: "
            'train one with model.separator.kind = "gdr"'
        )
    with task("reading the references", len(pairs)) as begun:
        scorer = translator.with_progress(begun.advance)
        scored = scorer.score([(pair.source, pair.target) for pair in pairs])
    return [_trace(pair, each) for pair, each in zip(pairs, scored, strict=True)]


def check_words(words: Sequence[str], of_pieces: Sequence[Word]) -> None:
    """Refuses a text whose words, between blanks, are not those of its pieces."""
    if len(of_pieces) != len(words):
        raise UntoldError(
            f"{' '.join(words)[:80]!r} has {len(words)} words, but {len(of_pieces)} for the "
            "tokenizer: alignments need text whose words stand between single blanks"
        )


def omit_phrase(pair: AlignedPair, generator: np.random.Generator) -> Omission | None:
    """Deletes a random phrase from the target; returns None if there is none.

    The source words that are linked to the phrase have no links outside of it. The phrase has
    between one word and half of the target, and it does not include the last word.
    """
    target, size = pair.target.split(), len(pair.source.split())
    links = pair.alignment.sure
    length = int(generator.integers(1, max(1, len(target) // 2) + 1))
    starts = generator.permutation(max(0, len(target) - length))
    for start in starts.tolist():
        gone = range(start, start + length)
        inside = {i for i, j in links if j in gone}
        if not inside or any(i in inside and j not in gone for i, j in links):
            continue
        kept = frozenset((i, j if j < start else j - length) for i, j in links if j not in gone)
        rest = " ".join(target[:start] + target[start + length :])
        omitted = np.array([i in inside for i in range(size)])
        return Omission(AlignedPair(pair.source, rest, Alignment(kept, kept)), omitted)
    return None


def _cell(value: float | None) -> str:
    return f"{'-':>8}" if value is None else f"{value:8.3f}"


def _trace(pair: AlignedPair, scored: Translation) -> PairTrace:
    source = words_between_spaces(pair.source, scored.source_tokens)
    target = words_between_spaces(pair.target, scored.tokens)
    words = tuple(pair.source.split()), tuple(pair.target.split())
    check_words(words[0], source)
    check_words(words[1], target)
    assert scored.assignments is not None
    shares = merge_assignments(scored.assignments, target, source)
    return PairTrace(words[0], words[1], shares, pair.alignment)
