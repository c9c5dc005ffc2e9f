"""What the worker's thread does with models: translate, explain and check, stream; read files.

Items of several requests are computed together. Long lists are divided, so that streams have
their turn in between.
"""

import base64
import binascii
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from untold.checking.checker import CheckedSegment, Checker
from untold.checking.formats import read_segments
from untold.checking.segments import Damage, ReadOptions, Segment
from untold.corpus.words import Word, merge_shares
from untold.corpus.words import words as split_words
from untold.errors import UntoldError, reason_and_cure, shorten
from untold.explain.explanation import explain, explain_translations
from untold.models.signals import CATEGORIES
from untold.serve.schemas import ApiError, ServiceLimits, StreamEvent, not_ready, unfit
from untold.serve.service import Decoding, ServedModel
from untold.serve.worker import ServiceMetrics
from untold.translator import Translation, Translator

# Pairs that are read before streams have their turn again; time grows with the product of lengths.
_PAIRS_AT_ONCE = 16
_CELLS_AT_ONCE = 200_000  # characters of sources times those of targets
# A compressed file could be a thousand times as large as what was sent: there is no .gz.
SUFFIXES = (".po", ".pot", ".tmx", ".tsv", ".jsonl", ".xlf", ".xliff")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class TranslateTask:
    """Translates items (text, prefix); with `explained`, answers say how each came about."""

    model: ServedModel
    metrics: ServiceMetrics
    decoding: Decoding
    explained: bool = False
    kind = "translate"

    def size(self, item: tuple[str, str]) -> int:
        """Counts the characters of both sides."""
        return len(item[0]) + len(item[1])

    def run(
        self, items: Sequence[tuple[str, str]], advance: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Returns an answer for each text."""
        translator = self.model.with_decoding(self.decoding)
        texts, prefixes = [text for text, _ in items], [prefix for _, prefix in items]
        explained = self.explained and translator.separates
        translations = translator.translate(
            texts, prefix=prefixes if any(prefixes) else (), assignments=explained
        )
        records: list[dict[str, Any] | None] = [None for _ in translations]
        if explained:
            records = _explain_found(translator, texts, translations, advance)
        for translation in translations:
            self.metrics.count_tokens(len(translation.source_tokens), len(translation.tokens))
        return [_translation_answer(*pair) for pair in zip(translations, records, strict=True)]


@dataclass(frozen=True)
class ExplainTask:
    """Explains pairs (source, target) if `given`, or else its own translations of the sources."""

    model: ServedModel
    metrics: ServiceMetrics
    given: bool
    kind = "explain"

    def size(self, item: tuple[str, str]) -> int:
        """Counts the characters of both sides."""
        return len(item[0]) + len(item[1])

    def run(
        self, items: Sequence[tuple[str, str]], advance: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Returns a sentence in the layout of docs/explain.md for each pair."""
        records = []
        for part in _portions([len(source) * len(target or source) for source, target in items]):
            sources, targets = zip(*items[part], strict=True)
            explained = explain(self.model.translator, sources, targets if self.given else ())
            for explanation in explained:
                words = len(explanation.source.words), len(explanation.target.words)
                self.metrics.count_tokens(*words)
                records.append(explanation.as_record())
            advance()
        return records


@dataclass(frozen=True)
class CheckTask:
    """Judges segments; `expected` is the share of them that is probably damaged."""

    model: ServedModel
    expected: float
    kind = "check"

    def size(self, item: Segment) -> int:
        """Counts the characters of both sides."""
        return len(item.source) + len(item.target)

    def run(
        self, items: Sequence[Segment], advance: Callable[[], None]
    ) -> list[CheckedSegment | Segment]:
        """Returns each segment as it was judged, or as itself with a reason."""
        translator = self.model.translator
        checker = Checker(translator.models, translator.decode.batch_tokens, self.expected)
        judged: list[CheckedSegment | Segment] = []
        for part in _portions([len(item.source) * len(item.target) for item in items]):
            judged += checker.check(items[part])
            advance()
        return judged


def _portions(cells: Sequence[int]) -> Iterator[slice]:
    """Divides a list so that no part takes long; a part has at least one item."""
    first, total = 0, 0
    for place, size in enumerate(cells):
        if place > first and (place - first >= _PAIRS_AT_ONCE or total + size > _CELLS_AT_ONCE):
            yield slice(first, place)
            first, total = place, 0
        total += size
    if cells:
        yield slice(first, len(cells))


def _explain_found(
    translator: Translator,
    texts: Sequence[str],
    translations: Sequence[Translation],
    advance: Callable[[], None] = lambda: None,
) -> list[dict[str, Any] | None]:
    """Explains translations that were found; None for those that cannot be explained.

    A blank text cannot, nor can one that was translated in segments.
    """
    records: list[dict[str, Any] | None] = [None for _ in texts]
    able = [
        place
        for place, translation in enumerate(translations)
        if translation.assignments is not None and texts[place].strip()
    ]
    for part in _portions([len(texts[k]) * len(translations[k].text) for k in able]):
        places = able[part]
        best = [replace(translations[k], alternatives=()) for k in places]
        explained = explain_translations(translator, [texts[k] for k in places], best)
        for place, explanation in zip(places, explained, strict=True):
            records[place] = explanation.as_record()
        advance()
    return records


def _translation_answer(translation: Translation, record: dict[str, Any] | None) -> dict[str, Any]:
    """Converts a translation for JSON; `record` is its explanation."""
    return {
        **_scored(translation),
        "tokens": list(translation.tokens),
        "source_tokens": list(translation.source_tokens),
        "alternatives": [_scored(other) for other in translation.alternatives],
        "trace": record,
    }


def _scored(translation: Translation) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "log_probability": round(translation.log_probability, 6),
    }


@dataclass(frozen=True)
class LiveText:
    """A text to be translated while somebody watches."""

    model: ServedModel
    text: str
    prefix: str
    decoding: Decoding


def live_events(asked: LiveText, metrics: ServiceMetrics) -> Generator[StreamEvent, None, None]:
    """Yields `start`, one `token` after each step of the search, and `end`."""
    translator, text = asked.model.with_decoding(asked.decoding), asked.text
    pieces = translator.tokenizers.source.pieces(translator.codec.encode_sources([text])[0])
    words = split_words(text, pieces)
    source = {
        "text": text,
        "language": asked.model.languages[0],
        "words": [word.text for word in words],
    }
    heading = {"model": asked.model.name, "categories": list(CATEGORIES)}
    yield StreamEvent("start", heading | {"source": source})
    before: Sequence[str] = ()
    translation: Translation | None = None
    for index, translation in enumerate(translator.steps(text, prefix=asked.prefix)):
        shown = [word.text for word in split_words(translation.text, translation.tokens)]
        kept = kept_words(before, shown)
        record = {
            "index": index,
            "text": translation.text,
            "words": shown,
            "kept": kept,
            "revised": kept < len(before),
            "complete": translation.complete,
            "shares": _newest_shares(translation, pieces, words),
        }
        before = shown
        yield StreamEvent("token", record)
    assert translation is not None
    metrics.count_tokens(len(translation.source_tokens), len(translation.tokens))
    (explained,) = _explain_found(translator, [text], [translation])
    yield StreamEvent("end", {"translation": _translation_answer(translation, explained)})


def kept_words(before: Sequence[str], now: Sequence[str]) -> int:
    """Counts the first words that still stand; the last one stands, too, if it has only grown."""
    for place, (word, other) in enumerate(zip(before, now, strict=False)):
        has_grown = place == len(before) - 1 and other.startswith(word)
        if word != other and not has_grown:
            return place
    return min(len(before), len(now))


def _newest_shares(
    translation: Translation, pieces: Sequence[str], words: Sequence[Word]
) -> list[Any] | None:
    """Returns the shares of each source word before the newest token.

    A text that is translated in segments has none, for no segment knows all of its words.
    """
    if translation.assignments is None or len(translation.source_tokens) != len(pieces):
        return None
    merged = merge_shares(translation.assignments[-1:], words)[0]
    return merged.astype(np.float64).round(4).tolist()


def read_uploaded(name: str, content: str, limits: ServiceLimits) -> list[Segment | Damage]:
    """Reads a file of this name whose bytes are given in base64; it lives while it is read."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in SUFFIXES or len(name) > _LONGEST_NAME:
        known = f"{', '.join(SUFFIXES)}, and at most {_LONGEST_NAME} characters"
        raise unfit("unknown_format", f"file.name {shorten(name)}: must end in one of {known}")
    data = _decode(content, limits.file_bytes)
    try:
        with tempfile.TemporaryDirectory(prefix="untold-") as folder:
            path = Path(folder) / f"file{suffix}"
            path.write_bytes(data)
            return _read_file(path, name, limits)
    except OSError as error:
        raise not_ready(f"the file cannot be kept: {reason_and_cure(error)}") from None


def _decode(content: str, most: int) -> bytes:
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise unfit("not_base64", "file.content is not base64: encode the bytes again") from None
    if len(data) > most:
        sizes = f"{len(data):,} bytes, and at most {most:,} are read"
        raise ApiError(413, "file_too_large", f"the file has {sizes}: divide it")
    return data


def _read_file(path: Path, name: str, limits: ServiceLimits) -> list[Segment | Damage]:
    try:
        items = list(islice(read_segments(path, ReadOptions()), limits.segments + 1))
    except UntoldError as error:
        raise unfit("unreadable_file", str(error).replace(str(path), shorten(name))) from None
    if len(items) > limits.segments:
        counts = f"more than {limits.segments:,} segments"
        raise ApiError(413, "too_many_segments", f"the file has {counts}: divide it")
    return [_renamed(item, path, name, limits.pair_characters) for item in items]


def _renamed(item: Segment | Damage, path: Path, name: str, characters: int) -> Segment | Damage:
    if isinstance(item, Damage):
        return replace(item, file=name, reason=item.reason.replace(str(path), name))
    if max(len(item.source), len(item.target)) > characters:
        return replace(item, file=name, unchecked=item.unchecked or "too long")
    return replace(item, file=name)
