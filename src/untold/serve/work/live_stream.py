"""The events of a translation that is watched: one for each token, with what is told by then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from untold.checking.evidence import merge_assignments
from untold.corpus.words import display_spans
from untold.explain.explanation import displayed_words
from untold.models.signals import CATEGORIES
from untold.serve.service_metrics import ServiceMetrics
from untold.serve.work.model_shelf import ServedModel
from untold.serve.work.model_tasks import Decoding, found_records, translation_answer
from untold.translator import Translation


@dataclass(frozen=True)
class StreamEvent:
    """An event by its name, with what JSON can hold."""

    name: str
    data: dict[str, Any] | bytes  # bytes are JSON already


@dataclass(frozen=True)
class LiveText:
    """A text to be translated while somebody watches."""

    model: ServedModel
    text: str
    prefix: str = ""
    decoding: Decoding = field(default_factory=Decoding)


def live_events(asked: LiveText, metrics: ServiceMetrics) -> Iterator[StreamEvent]:
    """Yields `start`, one `token` after each step of the search, and `end`."""
    translator, text = asked.decoding.of(asked.model), asked.text
    pieces = translator.tokenizers.source.pieces(translator.codec.encode_sources([text])[0])
    yield StreamEvent("start", _start(asked, pieces))
    words: Sequence[str] = ()
    last: Translation | None = None
    for number, last in enumerate(translator.steps(text, prefix=asked.prefix)):
        before, words = words, displayed_words(last.text, last.tokens)
        yield StreamEvent("token", {"index": number, **_token(last, before, words, pieces)})
    assert last is not None
    metrics.tokens(len(last.source_tokens), len(last.tokens))
    (record,) = found_records(translator, [text], [last])
    yield StreamEvent("end", {"translation": translation_answer(last, record)})


def kept_words(before: Sequence[str], now: Sequence[str]) -> int:
    """Counts the first words that still stand; the last one stands, too, if it has only grown."""
    for place, word in enumerate(before):
        is_last = place == len(before) - 1
        if place >= len(now) or not (now[place] == word or (is_last and _grew(word, now[place]))):
            return place
    return len(before)


def _grew(word: str, now: str) -> bool:
    return now.startswith(word)


def _start(asked: LiveText, pieces: Sequence[str]) -> dict[str, Any]:
    words = displayed_words(asked.text, pieces)
    source = {"text": asked.text, "language": asked.model.languages[0], "words": list(words)}
    return {"model": asked.model.name, "categories": list(CATEGORIES), "source": source}


def _token(
    now: Translation, before: Sequence[str], words: Sequence[str], pieces: Sequence[str]
) -> dict[str, Any]:
    kept = kept_words(before, words)
    return {
        "text": now.text,
        "words": list(words),
        "kept": kept,
        "revised": kept < len(before),
        "complete": now.complete,
        "shares": _newest_shares(now, pieces),
    }


def _newest_shares(now: Translation, pieces: Sequence[str]) -> list[Any] | None:
    """Returns the shares of each source word before the newest token.

    A text that is translated in segments has none, for no segment knows all of its words.
    """
    if now.assignments is None or len(now.source_tokens) != len(pieces):
        return None
    merged = merge_assignments(now.assignments[-1:], (), display_spans(pieces))[0]
    return merged.astype(np.float64).round(4).tolist()
