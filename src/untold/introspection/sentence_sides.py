"""The two texts of an explanation, and their words as they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from untold.config import DataConfig
from untold.corpus.word_spans import Span, display_spans, span_text, word_spans
from untold.errors import UntoldError
from untold.translator import Translation

__all__ = ["END", "Side", "check_targets", "side_records", "sides_of"]

END = "(end)"  # what is shown in place of a word for the end of the target


@dataclass(frozen=True)
class Side:
    """A text and its words as they are shown; no language means that it is not known."""

    text: str
    words: tuple[str, ...]
    language: str = ""


def sides_of(translation: Translation, source: str, data: DataConfig) -> tuple[Side, Side]:
    """Source and target, their pieces merged to words."""
    if not source.strip():
        raise UntoldError("the source is blank: there is nothing to explain")
    source_words = _words(source, translation.source_tokens)
    target_words = _words(translation.text, translation.tokens)
    return (
        Side(source, source_words, _language(data, "source_language")),
        Side(translation.text, target_words, _language(data, "target_language")),
    )


def side_records(source: Side, target: Side, *, given: bool) -> dict[str, Any]:
    """For JSON; `given`: the target was given, not found by the model."""
    return {"source": _record(source), "target": _record(target) | {"given": given}}


def check_targets(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Either there are none, or there is one for each source."""
    if targets and len(targets) != len(sources):
        raise UntoldError(f"{len(sources)} sources but {len(targets)} targets: give one each")


def _words(text: str, pieces: Sequence[str]) -> tuple[str, ...]:
    """As the text writes them, though the vocabulary may not; parts of words as their pieces do."""
    whole, written = word_spans(pieces), [word for word in text.split(" ") if word]
    known: dict[Span, str] = {}
    if len(whole) == len(written):
        known = dict(zip(whole, written, strict=True))
    return tuple(known.get(span) or span_text(pieces, span) for span in display_spans(pieces))


def _language(data: DataConfig, field: str) -> str:
    """What the configuration says; its default only stands for a language."""
    language = getattr(data, field)
    return "" if language == DataConfig.model_fields[field].default else language


def _record(side: Side) -> dict[str, Any]:
    return {"text": side.text, "language": side.language, "words": list(side.words)}
