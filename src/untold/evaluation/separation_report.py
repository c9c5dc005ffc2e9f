"""Reports the separation of past, future and redundant on sentence pairs with alignments."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from untold.account.word_figures import merge_assignments
from untold.corpus.alignments import Alignment, check_alignments, read_alignments
from untold.corpus.word_spans import Span, word_spans
from untold.errors import UntoldError
from untold.evaluation.separation import (
    PairTrace,
    Separation,
    measure_separation,
    omission_auc,
    position_rule,
)
from untold.feedback import task
from untold.translator import Translation, Translator

__all__ = [
    "AlignedPair",
    "Omission",
    "SeparationReport",
    "check_words",
    "omit_phrase",
    "read_aligned_pairs",
    "separation_report",
    "trace_pairs",
]

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


def check_words(words: Sequence[str], spans: Sequence[Span]) -> None:
    """Refuses a text whose words, between blanks, are not those of its pieces."""
    if len(spans) != len(words):
        raise UntoldError(
            f"{' '.join(words)[:80]!r} has {len(words)} words, but {len(spans)} for the "
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
    source, target = word_spans(scored.source_tokens), word_spans(scored.tokens)
    words = tuple(pair.source.split()), tuple(pair.target.split())
    check_words(words[0], source)
    check_words(words[1], target)
    assert scored.assignments is not None
    shares = merge_assignments(scored.assignments, target, source)
    return PairTrace(words[0], words[1], shares, pair.alignment)
