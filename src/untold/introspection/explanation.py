"""How a translation came about: what was told, untold and redundant before each of its words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from untold.config import DataConfig
from untold.corpus.word_spans import display_spans, merge_assignments, merge_copying
from untold.errors import UntoldError
from untold.introspection.copies import Copy, copy_records, find_copies
from untold.introspection.pfrnn_states import LayerTrace, trace_pieces
from untold.introspection.sentence_sides import END, Side, check_targets, side_records, sides_of
from untold.models.backbone import as_inspectable
from untold.translator import Translation, Translator

__all__ = [
    "CATEGORIES",
    "Explanation",
    "Flip",
    "explain",
    "explanation_of",
    "find_flips",
]

CATEGORIES = ("past", "future", "redundant")  # in the order of the last axis of shares
_PAST, _FUTURE = CATEGORIES.index("past"), CATEGORIES.index("future")


@dataclass(frozen=True)
class Flip:
    """After this target word was said, the source word was more past than future, not before."""

    source: int
    target: int


@dataclass(frozen=True, eq=False)  # arrays have no truth value that could make two of them equal
class Explanation:
    """The shares of every source word before each target word and, last, before the end."""

    source: Side
    target: Side
    shares: Float[np.ndarray, "t i g"]
    ending: Float[np.ndarray, "t g"]  # of the end of the source, which the model reads as a word
    score: float
    log_probability: float
    given: bool = False  # the target was given, not found by the model
    copying: Float[np.ndarray, "t i"] | None = None  # how much of each word was copied from where
    copies: tuple[Copy, ...] = ()  # the target words that were copied
    layers: LayerTrace | None = None  # of a PFRNN that has a separator, too

    @property
    def steps(self) -> tuple[str, ...]:
        """What comes next at each row of the shares: the target words, and the end."""
        return (*self.target.words, END)

    @property
    def flips(self) -> tuple[Flip, ...]:
        """In the order of the target."""
        return find_flips(self.shares)

    def as_record(self) -> dict[str, Any]:
        """All of it for JSON, in the layout of docs/explain.md."""
        return {
            **side_records(self.source, self.target, given=self.given),
            "score": self.score,
            "log_probability": self.log_probability,
            "shares": _numbers(self.shares),
            "source_end": _numbers(self.ending),
            "flips": [vars(flip) for flip in self.flips],
            **copy_records(self.copying, self.copies),
            "layers": None if self.layers is None else self.layers.as_record(),
        }


def find_flips(shares: Float[np.ndarray, "t i g"]) -> tuple[Flip, ...]:
    """Where past overtakes future from one row to the next; a word may go back and flip again."""
    told = shares[:, :, _PAST] > shares[:, :, _FUTURE]
    rows, words = np.nonzero(told[1:] & ~told[:-1])
    return tuple(Flip(int(word), int(row)) for row, word in zip(rows, words, strict=True))


def explain(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[Explanation]:
    """Of each source and the model's own translation, or of each source and its given target."""
    check_targets(sources, targets)
    # A translator whose model has no assignments says so, though there may be nothing to translate.
    translations = translator.translate([] if targets else sources, assignments=True)
    if targets:
        translations = translator.score(list(zip(sources, targets, strict=True)))
    found = [
        explanation_of(translation, source, translator.data, given=bool(targets))
        for source, translation in zip(sources, translations, strict=True)
    ]
    first = translator.models[0]
    if len(translator.models) > 1 or as_inspectable(first.model.backbone) is None:
        return found
    traces = trace_pieces(first, [(each.source_tokens, each.tokens) for each in translations])
    return [replace(each, layers=trace) for each, trace in zip(found, traces, strict=True)]


def explanation_of(
    translation: Translation, source: str, data: DataConfig, *, given: bool = False
) -> Explanation:
    """One translation with assignments, its pieces merged to words."""
    sides = sides_of(translation, source, data)
    if translation.assignments is None:
        raise UntoldError(
            f"no assignments for {source[:40]!r}: they need a model that separates past and future "
            f"and a text of at most {data.max_tokens} pieces (data.max_tokens)"
        )
    source_spans = display_spans(translation.source_tokens)
    target_spans = display_spans(translation.tokens)
    copying = translation.copying
    rows = [*(span.start for span in target_spans), len(translation.assignments) - 1]
    return Explanation(
        *sides,
        merge_assignments(translation.assignments, target_spans, source_spans),
        translation.assignments[rows, -1],
        translation.score,
        translation.log_probability,
        given,
        None if copying is None else merge_copying(copying, target_spans, source_spans),
        find_copies(translation),
    )


def _numbers(values: np.ndarray) -> list[Any]:
    return values.astype(np.float64).round(6).tolist()
