"""The translator: text in, Translation out, for the command line, validation and notebooks."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import overload

import numpy as np

from untold.config import DecodeConfig, parse_config
from untold.corpus.batching import TextCodec, plan_by_length
from untold.corpus.text import ready_groups
from untold.decoding.beam_search import beam_search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Hypothesis, Sentences
from untold.decoding.penalties import CoveragePenalty
from untold.decoding.scoring import (
    ForwardPass,
    PairReader,
    ReadPair,
    check_lengths,
    encode_pairs,
    forward_passes,
)
from untold.errors import UntoldError
from untold.inference.model import PreparedModel, prepare
from untold.models.seq2seq import Seq2Seq
from untold.models.signals import NO_SIGNALS, Signals, SignalsMixin
from untold.storage.model_directory import TrainedModel, load_model

_TEXTS_AT_ONCE = 1000  # that are encoded before anybody can break off


@dataclass(frozen=True)
class Translation(SignalsMixin[np.ndarray]):
    """Holds a translated text, its scores and pieces; `alternatives` complete the n-best list.

    `signals` (also attention, assignments and copying) have one row for each target piece and, if
    the translation is complete, one for EOS; their columns are the source pieces and EOS.
    """

    text: str
    score: float  # log_probability / length penalty, less what is uncovered
    log_probability: float
    tokens: tuple[str, ...]  # the pieces of the text
    source_tokens: tuple[str, ...]
    alternatives: tuple["Translation", ...] = ()
    signals: Signals[np.ndarray] = field(default=NO_SIGNALS, compare=False)
    complete: bool = True  # False: a search is still adding tokens


@dataclass(frozen=True)
class _Segment:
    """Holds a part of one text that the model translates at once; most texts are one segment."""

    text: int  # the place of the text in its list
    ids: tuple[int, ...]
    prefix: tuple[int, ...]  # how its translation must begin


def load(
    path: str | Path | Sequence[str | Path],
    device: str = "cpu",
    settings: Mapping[str, object] | None = None,
) -> "Translator":
    """Loads model directories, runs or hf:PATH, which may need `settings` such as its languages."""
    if not (paths := [path] if isinstance(path, (str, Path)) else list(path)):
        raise UntoldError("no model given: name at least one model directory")
    return Translator([load_model(each, device, settings=settings) for each in paths])


class Translator:
    """Translates with one model or an ensemble; it keeps nothing between calls.

    Blank text stays blank without the model. A text of more pieces than the model was trained on
    (data.max_tokens) is translated in segments of at most that many, cut between words; segments of
    spaces alone are left out.
    """

    def __init__(
        self,
        models: Sequence[TrainedModel],
        decode: DecodeConfig | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> None:
        """`advance` is called with a number whenever so many more texts are translated or scored.

        It is also called with zero after each step of a search. It may raise to break off.
        """
        first = models[0]
        for other in models[1:]:
            if other.tokenizers.fingerprint != first.tokenizers.fingerprint:
                raise UntoldError("an ensemble needs models with the same tokenizer")
        self.models = tuple(models)
        self.codec: TextCodec = first.codec
        self.tokenizers, self.data = first.tokenizers, first.config.data
        self.decode: DecodeConfig = first.config.limited(decode or first.config.decode)
        self._advance = advance
        self._model = first.model if len(models) == 1 else Ensemble([m.model for m in models])
        self._prepared: list[PreparedModel | Seq2Seq] = []

    def with_decoding(self, /, **settings: object) -> "Translator":
        """Returns a translator of the same models with other settings of DecodeConfig, checked."""
        values = {"decode": self.decode.model_dump() | settings}
        decode = parse_config(values, "decoding settings").decode
        other = Translator(self.models, decode, self._advance)
        if other.decode.int8 == self.decode.int8:
            other._prepared = self._prepared
        return other

    def with_progress(self, advance: Callable[[int], object]) -> "Translator":
        """Returns a translator of the same models that tells how far it is, as __init__ says."""
        other = copy(self)
        other._advance = advance
        return other

    @property
    def separates(self) -> bool:
        """Tells if a model separates past and future."""
        return any(each.model.past_future is not None for each in self.models)

    @property
    def copies(self) -> bool:
        """Tells if a model can copy words of the source."""
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
        """Translates one text into a Translation, or a list of texts into a list in its order.

        `prefix` is how the translation must begin: one for a text, a list for a list. `assignments`
        needs a model that separates past and future. With it or with `attention`, the translations
        of a model that copies also carry `copying`.
        """
        wanted = self._wanted(attention, assignments)
        if isinstance(text, str):
            begins = [prefix] if isinstance(prefix, str) else list(prefix)
            return self._translate([text], 0, begins, wanted)[0]
        if isinstance(prefix, str):
            raise UntoldError("a list of texts needs a list of prefixes, one for each text")
        return self._translate(list(text), 0, list(prefix), wanted)

    def steps(
        self, text: str, *, prefix: str = "", attention: bool = False, assignments: bool = True
    ) -> Iterator[Translation]:
        """Translates one text and yields the best hypothesis so far after each token.

        The last Translation is that of `translate`. Before it, `complete` tells if a hypothesis has
        ended; a better one may still follow. Close the iterator to stop the search. `assignments`
        are None if no model separates past and future. A text of several segments is translated one
        segment after the other, where `translate` batches them.
        """
        wanted = self._wanted(attention, assignments and self.separates)
        segments, done = self._segments([text], [prefix]), []
        if not segments:
            yield _join([])
        for segment in segments:
            now = _join([])
            for step in beam_search(
                self._searcher(), self._search_batch([segment], 0), self.decode, wanted
            ):
                hypotheses = step.best() if len(step.live) else step.nbest()[0]
                now = self._finish(hypotheses, segment.ids)
                whole = _join([*done, now])
                last = len(done) == len(segments) - 1
                yield whole if last else replace(whole, complete=False)
            done.append(now)

    def stream(
        self,
        texts: Iterable[str],
        window: int = 1024,
        *,
        copying: bool = False,
        assignments: bool = False,
    ) -> Iterator[Translation]:
        """Translates texts as they arrive, in order, at most `window` at a time.

        With `copying` and `assignments`, the translations of models that have them carry them.
        """
        groups = self.stream_groups(texts, window, copying=copying, assignments=assignments)
        for group in groups:
            yield from (translation for _, translation in group)

    def stream_groups(
        self,
        texts: Iterable[str],
        window: int = 1024,
        *,
        copying: bool = False,
        assignments: bool = False,
    ) -> Iterator[list[tuple[str, Translation]]]:
        """Translates as `stream` does; yields texts together that were translated together."""
        has = {"copying": copying and self.copies, "assignments": assignments and self.separates}
        first, wanted = 0, frozenset(name for name, wanted in has.items() if wanted)
        for group in ready_groups(texts, window):
            yield list(zip(group, self._translate(group, first, [], wanted), strict=True))
            first += len(group)

    def score(
        self, pairs: Sequence[tuple[str, str]], *, attention: bool = False
    ) -> list[Translation]:
        """Scores each target as a Translation of its source by log p(target | source), unsearched.

        The results carry assignments and copying if a model has them.
        """
        return [translation for translation, _ in self.read(pairs, attention=attention)]

    def read(
        self,
        pairs: Sequence[tuple[str, str]],
        reader: PairReader | None = None,
        *,
        attention: bool = False,
    ) -> list[tuple[Translation, ReadPair | None]]:
        """Scores as `score` does; `reader`, of one of the models, reads each pair in the same pass.

        Without a reader nothing but the score is known.
        """
        encoded, batch_tokens = encode_pairs(self.codec, pairs), self.decode.batch_tokens
        check_lengths(encoded, self.models[0].config, batch_tokens)
        alpha, coverage = self.decode.length_penalty, CoveragePenalty.of(self.decode)
        asks = attention or (coverage is not None and coverage.by_attention)
        scores: dict[int, tuple[Translation, ReadPair | None]] = {}
        passes = forward_passes(self._model, self.codec, encoded, batch_tokens, attention=asks)
        for forward in passes:
            read: Sequence[ReadPair | None] = [None] * len(forward.rows)
            if reader is not None:
                read = reader.read_pass(self._part_of(forward, reader.trained.model), encoded)
            hypotheses = forward.hypotheses(alpha, coverage, attention=attention)
            for row, hypothesis, told in zip(forward.rows, hypotheses, read, strict=True):
                scored = self._finish([hypothesis], encoded[row].ids[0])
                scores[row] = replace(scored, text=pairs[row][1]), told
            self._tell(len(forward.rows))
        return [scores[row] for row in range(len(pairs))]

    def _part_of(self, forward: ForwardPass, model: Seq2Seq) -> ForwardPass:
        """Takes from a pass of several models what one of them has predicted."""
        if not isinstance(self._model, Ensemble):
            return forward
        return replace(forward, model=model, outputs=self._model.outputs_of(model, forward.outputs))

    def _translate(
        self, texts: list[str], first: int, prefixes: list[str], wanted: Collection[str]
    ) -> list[Translation]:
        """Searches in batches of similar length; `first` is the number of the first text."""
        segments = self._segments(texts, prefixes)
        last_rows = {segment.text: row for row, segment in enumerate(segments)}  # of each text
        hypotheses: dict[int, list[Hypothesis]] = {}
        lengths = [len(segment.ids) + 1 for segment in segments]
        model = self._searcher() if segments else self._model
        for rows in plan_by_length(lengths, self.decode.batch_tokens):
            sentences = self._search_batch([segments[row] for row in rows], first)
            for step in beam_search(model, sentences, self.decode, wanted):
                if not step.live:
                    hypotheses.update(zip(rows, step.nbest(), strict=True))
                self._tell(0)
            self._tell(sum(last_rows[segments[row].text] == row for row in rows))
        self._tell(len(texts) - len(last_rows))  # the blank ones
        parts: list[list[Translation]] = [[] for _ in texts]
        for row, segment in enumerate(segments):
            parts[segment.text].append(self._finish(hypotheses[row], segment.ids))
        return [_join(translations) for translations in parts]

    def _searcher(self) -> Seq2Seq | PreparedModel | Ensemble:
        """Prepares the models for the first translation, and again when weights have changed."""
        prepared = self._prepared
        stale = any(isinstance(each, PreparedModel) and not each.is_current for each in prepared)
        if stale or not prepared:
            prepared[:] = [prepare(each.model, int8=self.decode.int8) for each in self.models]
        return prepared[0] if len(prepared) == 1 else Ensemble(prepared)

    def _tell(self, done: int) -> None:
        if self._advance is not None:
            self._advance(done)

    def _wanted(self, attention: bool, assignments: bool) -> frozenset[str]:
        """Names the signals to collect."""
        if assignments and not self.separates:
            raise UntoldError(
                "the model does not separate past and future: train one with "
                'model.separator.kind = "gdr", or add it to this one with --init and '
                "train.freeze_backbone = true"
            )
        copying = (attention or assignments) and self.copies
        asked = {"attention": attention, "assignments": assignments, "copying": copying}
        return frozenset(name for name, wanted in asked.items() if wanted)

    def _segments(self, texts: list[str], prefixes: list[str]) -> list[_Segment]:
        """Encodes texts; a blank one has no segment, and a prefix goes to the first of its text."""
        if prefixes and len(prefixes) != len(texts):
            raise UntoldError(f"{len(prefixes)} prefixes for {len(texts)} texts: give one each")
        begins = self.codec.encode_targets(prefixes) if any(prefixes) else [[]] * len(texts)
        segments, limit, encoded = [], self.data.max_tokens, []
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            encoded += self.codec.encode_sources(texts[first : first + _TEXTS_AT_ONCE])
            self._tell(0)
        for number, ids in enumerate(encoded):
            if texts[number].strip():
                parts = [tuple(ids)] if len(ids) <= limit else self._split(ids)
                segments.append(_Segment(number, parts[0], tuple(begins[number])))
                segments += [_Segment(number, part, ()) for part in parts[1:]]
        return segments

    def _split(self, ids: list[int]) -> list[tuple[int, ...]]:
        """Cuts into at most max_tokens ids each, if possible before an id that starts a word."""
        limit, source = self.data.max_tokens, self.tokenizers.source
        starts, first, parts = source.word_starts(ids), 0, []
        while len(ids) - first > limit:
            cuts = (place for place in range(first + limit, first, -1) if starts[place])
            end = next(cuts, first + limit)
            parts.append(tuple(ids[first:end]))
            first = end
        parts.append(tuple(ids[first:]))
        return [part for part in parts if source.decode(part).strip()] or parts[:1]

    def _search_batch(self, segments: list[_Segment], first: int) -> Sentences:
        ids, mask = self.codec.pad_sources([segment.ids for segment in segments])
        words, prefixes = None, tuple(segment.prefix for segment in segments)
        if self.decode.coverage_penalty:
            words = mask & (ids != self.tokenizers.source.special_ids.eos)
        numbers = tuple(first + segment.text for segment in segments)
        special = self.tokenizers.target.special_ids
        return Sentences(ids, mask, special, prefixes if any(prefixes) else None, numbers, words)

    def _finish(self, hypotheses: Sequence[Hypothesis], source: Sequence[int]) -> Translation:
        """Turns an n-best list into a Translation, whose alternatives are all but the best."""
        target, source_tokens = self.tokenizers.target, tuple(self.tokenizers.source.pieces(source))
        translations = [
            Translation(
                text=target.decode(h.tokens),
                score=h.score,
                log_probability=h.log_probability,
                tokens=tuple(target.pieces(h.tokens)),
                source_tokens=source_tokens,
                signals=NO_SIGNALS if h.signals is NO_SIGNALS else h.signals.numpy(),
                complete=h.complete,
            )
            for h in hypotheses
        ]
        best, *others = translations
        return replace(best, alternatives=tuple(others)) if others else best


def _join(parts: list[Translation]) -> Translation:
    """Joins the segments of a text; only an undivided text keeps its alternatives and signals."""
    if not parts:
        return Translation("", 0.0, 0.0, (), ())
    if len(parts) == 1:
        return parts[0]
    return Translation(
        text=" ".join(part.text for part in parts),
        score=sum(part.score for part in parts) / len(parts),
        log_probability=sum(part.log_probability for part in parts),
        tokens=tuple(chain.from_iterable(part.tokens for part in parts)),
        source_tokens=tuple(chain.from_iterable(part.source_tokens for part in parts)),
        complete=parts[-1].complete,
    )
