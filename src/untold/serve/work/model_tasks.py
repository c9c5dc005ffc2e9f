"""Lets models translate, explain and check the items of several requests together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from untold.alignment.model_links import WordLink, link_displayed_words
from untold.checking.checker import CheckedSegment, Checker
from untold.checking.segments import Segment
from untold.decoding.scoring import AccountReader
from untold.explain.explanation import Explanation, explain, explain_translations
from untold.serve.service_metrics import ServiceMetrics
from untold.serve.work.model_shelf import ServedModel
from untold.translator import Translation, Translator

# Pairs that are read before streams have their turn again; time grows with the product of lengths.
_PAIRS_AT_ONCE = 16
_CELLS_AT_ONCE = 200_000  # characters of sources times those of targets


@dataclass(frozen=True)
class Decoding:
    """Settings of the search that a request may change; None keeps the model's."""

    beam: int | None = None
    nbest: int | None = None
    length_penalty: float | None = None

    def of(self, model: ServedModel) -> Translator:
        """Returns the translator of a model with these settings."""
        return model.decoding(self.beam, self.nbest, self.length_penalty)


@dataclass(frozen=True)
class TranslateTask:
    """Translates items (text, prefix); with `explained`, answers say how each came about."""

    model: ServedModel
    metrics: ServiceMetrics
    decoding: Decoding = Decoding()
    explained: bool = False
    kind = "translate"

    def size(self, item: tuple[str, str]) -> int:
        """Counts the characters of both sides."""
        return len(item[0]) + len(item[1])

    def run(
        self, items: Sequence[tuple[str, str]], advance: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """Returns an answer for each text."""
        translator = self.decoding.of(self.model)
        texts, prefixes = [text for text, _ in items], [prefix for _, prefix in items]
        wanted = self.explained and translator.separates
        found = translator.translate(
            texts, prefix=prefixes if any(prefixes) else (), assignments=wanted
        )
        records: list[dict[str, Any] | None] = [None for _ in found]
        if wanted:
            records = found_records(translator, texts, found, advance)
        for each in found:
            self.metrics.tokens(len(each.source_tokens), len(each.tokens))
        return [translation_answer(*each) for each in zip(found, records, strict=True)]


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
        """Returns a sentence in the layout of docs/explain.md, with links, for each pair."""
        translator, records = self.model.translator, []
        for part in _portions([len(source) * len(target or source) for source, target in items]):
            some = items[part]
            sources, targets = [pair[0] for pair in some], [pair[1] for pair in some]
            found = explain(translator, sources, targets if self.given else ())
            records += linked_records(translator, found)
            for each in found:
                self.metrics.tokens(len(each.source.words), len(each.target.words))
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
        checker, found = Checker(self.model.translator, self.expected), []
        for part in _portions([len(each.source) * len(each.target) for each in items]):
            found += checker.check(items[part])
            advance()
        return found


def translation_answer(translation: Translation, record: dict[str, Any] | None) -> dict[str, Any]:
    """Converts a translation for JSON; `record` is its explanation."""
    return {
        **_scored(translation),
        "tokens": list(translation.tokens),
        "source_tokens": list(translation.source_tokens),
        "alternatives": [_scored(each) for each in translation.alternatives],
        "trace": record,
    }


def found_records(
    translator: Translator,
    texts: Sequence[str],
    found: Sequence[Translation],
    advance: Callable[[], None] = lambda: None,
) -> list[dict[str, Any] | None]:
    """Explains translations that were found; None for those that cannot be explained.

    A blank text cannot, nor can one that was translated in segments.
    """
    records: list[dict[str, Any] | None] = [None for _ in texts]
    able = [k for k, each in enumerate(found) if each.assignments is not None and texts[k].strip()]
    for part in _portions([len(texts[k]) * len(found[k].text) for k in able]):
        some = able[part]
        plain = [replace(found[k], alternatives=()) for k in some]
        explained = explain_translations(translator, [texts[k] for k in some], plain)
        made = linked_records(translator, explained)
        for place, record in zip(some, made, strict=True):
            records[place] = record
        advance()
    return records


def linked_records(
    translator: Translator, explanations: Sequence[Explanation]
) -> list[dict[str, Any]]:
    """Converts explanations to the layout of docs/explain.md, and adds the links of words."""
    links = _known_links(explanations) or _read_links(translator, explanations)
    return [
        each.as_record() | {"links": [vars(link) for link in own]}
        for each, own in zip(explanations, links, strict=True)
    ]


def _portions(cells: Sequence[int]) -> Iterator[slice]:
    """Divides a list so that no part takes long; a part has at least one item."""
    first, total = 0, 0
    for place, own in enumerate(cells):
        if place > first and (place - first >= _PAIRS_AT_ONCE or total + own > _CELLS_AT_ONCE):
            yield slice(first, place)
            first, total = place, 0
        total += own
    if cells:
        yield slice(first, len(cells))


def _known_links(explanations: Sequence[Explanation]) -> list[tuple[WordLink, ...]]:
    """Returns the links that were found with the explanations, if there are any."""
    known = [getattr(each, "links", ()) for each in explanations]
    return [] if None in known else known


def _read_links(
    translator: Translator, explanations: Sequence[Explanation]
) -> list[tuple[WordLink, ...]]:
    """Reads the links from the first model that separates past and future."""
    able = [each for each in translator.models if each.model.past_future is not None]
    reader = AccountReader(able[0], translator.decode.batch_tokens)
    pairs = [(each.source.text, each.target.text) for each in explanations]
    return [link_displayed_words(account) for account in reader.read(pairs)]


def _scored(translation: Translation) -> dict[str, Any]:
    return {
        "text": translation.text,
        "score": round(translation.score, 6),
        "log_probability": round(translation.log_probability, 6),
    }
