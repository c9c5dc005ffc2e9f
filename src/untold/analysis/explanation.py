"""How a translation came about: what was told, untold and redundant before each of its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from untold.analysis.words import (
    Span,
    display_spans,
    merge_assignments,
    merge_copying,
    span_text,
    word_spans,
)
from untold.config import DataConfig
from untold.errors import UntoldError
from untold.translator import Translation, Translator

__all__ = [
    "CATEGORIES",
    "END",
    "Explanation",
    "Flip",
    "Side",
    "explain",
    "explanation_of",
    "find_flips",
]

CATEGORIES = ("past", "future", "redundant")  # in the order of the last axis of shares
END = "(end)"  # what is shown in place of a word for the end of the target
_PAST, _FUTURE = CATEGORIES.index("past"), CATEGORIES.index("future")


@dataclass(frozen=True)
class Side:
    """A text and its words as they are shown; no language means that it is not known."""

    text: str
    words: tuple[str, ...]
    language: str = ""


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
            "source": _side_record(self.source),
            "target": _side_record(self.target) | {"given": self.given},
            "score": self.score,
            "log_probability": self.log_probability,
            "shares": _numbers(self.shares),
            "source_end": _numbers(self.ending),
            "flips": [vars(flip) for flip in self.flips],
            "copying": None if self.copying is None else _numbers(self.copying),
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
    if targets and len(targets) != len(sources):
        raise UntoldError(f"{len(sources)} sources but {len(targets)} targets: give one each")
    # A translator whose model has no assignments says so, though there may be nothing to translate.
    translations = translator.translate([] if targets else sources, assignments=True)
    if targets:
        translations = translator.score(list(zip(sources, targets, strict=True)))
    return [
        explanation_of(translation, source, translator.data, given=bool(targets))
        for source, translation in zip(sources, translations, strict=True)
    ]


def explanation_of(
    translation: Translation, source: str, data: DataConfig, *, given: bool = False
) -> Explanation:
    """One translation with assignments, its pieces merged to words."""
    if not source.strip():
        raise UntoldError("the source is blank: there is nothing to explain")
    if translation.assignments is None:
        raise UntoldError(
            f"no assignments for {source[:40]!r}: they need a model that separates past and future "
            f"and a text of at most {data.max_tokens} pieces (data.max_tokens)"
        )
    source_spans = display_spans(translation.source_tokens)
    target_spans = display_spans(translation.tokens)
    copying = translation.copying
    rows = [*(span.start for span in target_spans), len(translation.assignments) - 1]
    source_words = _words(source, translation.source_tokens, source_spans)
    target_words = _words(translation.text, translation.tokens, target_spans)
    return Explanation(
        Side(source, source_words, _language(data, "source_language")),
        Side(translation.text, target_words, _language(data, "target_language")),
        merge_assignments(translation.assignments, target_spans, source_spans),
        translation.assignments[rows, -1],
        translation.score,
        translation.log_probability,
        given,
        None if copying is None else merge_copying(copying, target_spans, source_spans),
    )


def _words(text: str, pieces: Sequence[str], spans: Sequence[Span]) -> tuple[str, ...]:
    """As the text writes them, though the vocabulary may not; parts of words as their pieces do."""
    whole, written = word_spans(pieces), [word for word in text.split(" ") if word]
    known = dict(zip(whole, written, strict=True)) if len(whole) == len(written) else {}
    return tuple(known.get(span) or span_text(pieces, span) for span in spans)


def _language(data: DataConfig, field: str) -> str:
    """What the configuration says; its default only stands for a language."""
    language = getattr(data, field)
    return "" if language == DataConfig.model_fields[field].default else language


def _side_record(side: Side) -> dict[str, Any]:
    return {"text": side.text, "language": side.language, "words": list(side.words)}


def _numbers(values: np.ndarray) -> list[Any]:
    return values.astype(np.float64).round(6).tolist()
