"""Text in, Translation out: the one object behind the command line, validation and notebooks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
from jaxtyping import Float
from torch import Tensor

from untold.config import DecodeConfig, parse_config
from untold.corpus.batching import collate, pad_rows, plan_by_length
from untold.corpus.line_groups import ready_groups
from untold.corpus.tokenizer import Tokenizers
from untold.corpus.vocabulary import EOS
from untold.decoding import (
    CoveragePenalty,
    Ensemble,
    Hypothesis,
    Sentences,
    Show,
    score_pairs,
    search,
)
from untold.errors import UntoldError
from untold.storage.model_directory import TrainedModel, load_model

__all__ = ["Translation", "Translator", "load"]


@dataclass(frozen=True)
class Translation:
    """A translated text, its scores and pieces; `alternatives` are the rest of the n-best list."""

    text: str
    score: float  # log_probability over the length penalty, and the coverage penalty
    log_probability: float
    tokens: tuple[str, ...]  # the pieces of the text
    source_tokens: tuple[str, ...]
    alternatives: tuple["Translation", ...] = ()
    # Of each target token and EOS, over the pieces of the source and its EOS:
    attention: Float[np.ndarray, "t i"] | None = None
    assignments: Float[np.ndarray, "t i g"] | None = None  # shares of past, future, redundant
    copying: Float[np.ndarray, "t i"] | None = None  # the probability that it was copied from there


@dataclass(frozen=True)
class _Segment:
    """A stretch of one text that the model translates at once; most texts are one segment."""

    text: int  # which text it belongs to
    ids: tuple[int, ...]
    prefix: tuple[int, ...]  # how its translation must begin


def load(path: str | Path | Sequence[str | Path], device: str = "cpu") -> "Translator":
    """A translator from a model directory or a training run; several paths make an ensemble."""
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UntoldError("no model given: name at least one model directory")
    return Translator([load_model(each, device) for each in paths])


class Translator:
    """Translates with one model or an ensemble; safe to share, it keeps nothing between calls.

    Blank text stays blank without the model. A text of more pieces than the model was trained on
    (data.max_tokens) is translated in stretches of at most that many, cut between words.
    """

    def __init__(self, models: Sequence[TrainedModel], decode: DecodeConfig | None = None) -> None:
        first = models[0]
        for other in models[1:]:
            if other.tokenizers.fingerprint != first.tokenizers.fingerprint:
                raise UntoldError("an ensemble needs models with the same tokenizer")
        self.models = tuple(models)
        self.tokenizers: Tokenizers = first.tokenizers
        self.data = first.config.data
        self.decode: DecodeConfig = decode or first.config.decode
        self.device = next(first.model.parameters()).device
        self._model = first.model if len(models) == 1 else Ensemble([m.model for m in models])

    def with_decoding(self, **settings: object) -> "Translator":
        """The same models with other settings of DecodeConfig, checked."""
        values = {"decode": self.decode.model_dump() | settings}
        return Translator(self.models, parse_config(values, "decoding settings").decode)

    @property
    def separates(self) -> bool:
        """Whether a model can tell what is said from what is still untold."""
        return any(each.model.past_future is not None for each in self.models)

    @property
    def copies(self) -> bool:
        """Whether a model can copy words of the source."""
        return any(each.model.copy_layer is not None for each in self.models)

    @overload
    def translate(
        self, text: str, *, prefix: str = "", attention: bool = False, assignments: bool = False
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        *,
        prefix: Sequence[str] = (),
        attention: bool = False,
        assignments: bool = False,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        *,
        prefix: str | Sequence[str] = (),
        attention: bool = False,
        assignments: bool = False,
    ) -> Translation | list[Translation]:
        """One text gives a Translation, a list of texts a list, in its order.

        `prefix` is how the translation must begin: one for a text, a list for a list. `assignments`
        needs a model that separates past and future. With it or with `attention`, a model that
        copies also tells what from.
        """
        show = self._show(attention, assignments)
        if isinstance(text, str):
            begins = [prefix] if isinstance(prefix, str) else list(prefix)
            return self._translate([text], 0, begins, show)[0]
        if isinstance(prefix, str):
            raise UntoldError("a list of texts needs a list of prefixes, one for each text")
        return self._translate(list(text), 0, list(prefix), show)

    def stream(
        self,
        texts: Iterable[str],
        window: int = 1024,
        *,
        copying: bool = False,
        assignments: bool = False,
    ) -> Iterator[Translation]:
        """Translate as texts arrive, in order, at most `window` at a time.

        With `copying`, a model that copies tells what from; with `assignments`, a model that
        separates past and future adds them.
        """
        show = Show(assignments=assignments and self.separates, copying=copying and self.copies)
        first = 0
        for group in ready_groups(texts, window):
            yield from self._translate(group, first, [], show)
            first += len(group)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, attention: bool = False
    ) -> list[Translation]:
        """Each target as a Translation of its source: log p(target | source), no search.

        With assignments and copying, if a model has them: the pass over the target gives them.
        """
        sources = self._encode([source for source, _ in pairs])
        targets = self.tokenizers.target.encode([self._prepare(target) for _, target in pairs])
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
        found: dict[int, Translation] = {}
        for rows in plan_by_length(lengths, self.decode.batch_tokens):
            batch = collate([(sources[row], targets[row]) for row in rows], rows).to(self.device)
            alpha, coverage = self.decode.length_penalty, CoveragePenalty.of(self.decode)
            hypotheses = score_pairs(self._model, batch, alpha, coverage, attention=attention)
            for row, hypothesis in zip(rows, hypotheses, strict=True):
                found[row] = replace(self._finish(hypothesis, sources[row]), text=pairs[row][1])
        return [found[row] for row in range(len(pairs))]

    def _translate(
        self, texts: list[str], first: int, prefixes: list[str], show: Show
    ) -> list[Translation]:
        if prefixes and len(prefixes) != len(texts):
            raise UntoldError(f"{len(prefixes)} prefixes for {len(texts)} texts: give one each")
        begins = self.tokenizers.target.encode([self._prepare(p) for p in prefixes])
        segments = []
        for number, (text, ids) in enumerate(zip(texts, self._encode(texts), strict=True)):
            for place, part in enumerate(self._split(ids) if text.strip() else ()):
                begin = begins[number] if begins and place == 0 else []
                segments.append(_Segment(number, part, tuple(begin)))
        found: dict[int, list[Translation]] = {number: [] for number in range(len(texts))}
        results = self._search_all(segments, first, show)
        for segment, hypotheses in zip(segments, results, strict=True):
            options = [self._finish(each, segment.ids) for each in hypotheses]
            found[segment.text].append(replace(options[0], alternatives=tuple(options[1:])))
        return [_join(parts) for parts in found.values()]

    def _search_all(
        self, segments: list[_Segment], first: int, show: Show
    ) -> list[list[Hypothesis]]:
        """Search in batches of similar length; the results come back in the order of `segments`."""
        results: list[list[Hypothesis]] = [[] for _ in segments]
        lengths = [len(segment.ids) + 1 for segment in segments]
        for rows in plan_by_length(lengths, self.decode.batch_tokens):
            sentences = self._sentences([segments[row] for row in rows], first)
            found = search(self._model, sentences, self.decode, show)
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
        return results

    def _show(self, attention: bool, assignments: bool) -> Show:
        if assignments and not self.separates:
            raise UntoldError(
                "the model does not separate past and future: train one with "
                'model.separator.kind = "gdr", or add it to this one with --init and '
                "train.freeze_backbone = true"
            )
        return Show(attention, assignments, self.copies and (attention or assignments))

    def _sentences(self, segments: list[_Segment], first: int) -> Sentences:
        ids, mask = pad_rows([(*segment.ids, EOS) for segment in segments])
        prefixes = tuple(segment.prefix for segment in segments)
        return Sentences(
            ids.to(self.device),
            mask.to(self.device),
            prefixes if any(prefixes) else None,
            tuple(first + segment.text for segment in segments),
        )

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizers.source.encode([self._prepare(text) for text in texts])

    def _prepare(self, text: str) -> str:
        return text.lower() if self.data.lowercase else text

    def _split(self, ids: list[int]) -> Iterator[tuple[int, ...]]:
        """At most max_tokens pieces each, cut before a piece that begins a word if there is one."""
        limit, pieces = self.data.max_tokens, self.tokenizers.source.pieces(ids)
        first = 0
        while len(ids) - first > limit:
            cuts = (p for p in range(first + limit, first, -1) if pieces[p].startswith("▁"))
            end = next(cuts, first + limit)
            yield tuple(ids[first:end])
            first = end
        yield tuple(ids[first:])

    def _finish(self, hypothesis: Hypothesis, source: Sequence[int]) -> Translation:
        return Translation(
            text=self.tokenizers.target.decode(hypothesis.tokens),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(self.tokenizers.target.pieces(hypothesis.tokens)),
            source_tokens=tuple(self.tokenizers.source.pieces(source)),
            attention=_as_array(hypothesis.attention),
            assignments=_as_array(hypothesis.assignments),
            copying=_as_array(hypothesis.copying),
        )


def _as_array(values: Tensor | None) -> np.ndarray | None:
    return None if values is None else values.float().cpu().numpy()


def _join(parts: list[Translation]) -> Translation:
    """One Translation of the stretches of a text; only an undivided one keeps its alternatives."""
    if not parts:
        return Translation("", 0.0, 0.0, (), ())
    if len(parts) == 1:
        return parts[0]
    return Translation(
        text=" ".join(part.text for part in parts),
        score=sum(part.score for part in parts) / len(parts),
        log_probability=sum(part.log_probability for part in parts),
        tokens=tuple(token for part in parts for token in part.tokens),
        source_tokens=tuple(token for part in parts for token in part.source_tokens),
    )
