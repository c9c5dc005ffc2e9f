"""The two texts of an explanation and their words as they are displayed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from untold.config import DataConfig
from untold.corpus.word_spans import Span, display_spans, span_text, word_spans
from untold.errors import UntoldError
from untold.translator import Translation

__all__ = ["END", "Side", "displayed_words", "side_records", "sides_of"]

END = "(end)"  # displayed for EOS


@dataclass(frozen=True)
class Side:
    """A text and its words as they are displayed. The language is empty if it is unknown."""

    text: str
    words: tuple[str, ...]
    language: str = ""


def sides_of(translation: Translation, source: str, data: DataConfig) -> tuple[Side, Side]:
    """Makes both sides of a translation; merges pieces into words."""
    if not source.strip():
        raise UntoldError("the source is blank: there is nothing to explain")
    source_words = displayed_words(source, translation.source_tokens)
    target_words = displayed_words(translation.text, translation.tokens)
    return (
        Side(source, source_words, _language(data, "source_language")),
        Side(translation.text, target_words, _language(data, "target_language")),
    )


def side_records(source: Side, target: Side, *, given: bool) -> dict[str, Any]:
    """Converts both sides for JSON; `given` says that the user gave the target."""
    return {"source": _record(source), "target": _record(target) | {"given": given}}


def displayed_words(text: str, pieces: Sequence[str]) -> tuple[str, ...]:
    """Takes whole words from the text, which may have unknown characters, and parts from pieces."""
    whole, written = word_spans(pieces), [word for word in text.split(" ") if word]
    known: dict[Span, str] = {}
    if len(whole) == len(written):
        known = dict(zip(whole, written, strict=True))
    return tuple(known.get(span) or span_text(pieces, span) for span in display_spans(pieces))


def _language(data: DataConfig, field: str) -> str:
    """Returns the configured language, or nothing if it is only the default name."""
    language = getattr(data, field)
    return "" if language == DataConfig.model_fields[field].default else language


def _record(side: Side) -> dict[str, Any]:
    return {"text": side.text, "language": side.language, "words": list(side.words)}
