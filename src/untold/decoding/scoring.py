"""Reads given pairs without a search: each is encoded once, and the model runs over it once.

`forward_passes` is the only loop over given pairs. What one pass of a batch says is read in two
ways: `ForwardPass.hypotheses` scores the targets as a search would, and `PairReader` notes which
source piece was told where. Scores, links, checks, explanations and calibrations start from these.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from untold.config import Config
from untold.corpus.batching import Batch, IdPair, TextCodec, plan_by_length
from untold.corpus.words import Word, words
from untold.decoding.hypotheses import NOT_NUMBERS, Hypothesis, Scorable
from untold.decoding.penalties import CoveragePenalty, coverage_penalty, length_penalty
from untold.errors import UntoldError
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.models.signals import PAST, Signals
from untold.models.translation_table import find_links

CANNOT_TELL = (
    "the model does not separate past and future, so it cannot tell what is untold: train one with "
    'model.separator.kind = "gdr", or add it to this model with untold train --init MODEL and '
    "train.freeze_backbone = true"
)
_POSITIONS = 1024  # logits of so many positions are in memory at a time


@runtime_checkable
class Trained(Protocol):
    """A model with its configuration and codec, as `storage.load_model` returns it."""

    @property
    def model(self) -> Seq2Seq:
        """The network."""
        ...

    @property
    def config(self) -> Config:
        """Its settings, which limit the length of pairs."""
        ...

    @property
    def codec(self) -> TextCodec:
        """Encodes its texts."""
        ...


@dataclass(frozen=True)
class EncodedPair:
    """Two texts and their ids, without special ids."""

    source: str
    target: str
    ids: IdPair

    @property
    def length(self) -> int:
        """Counts the ids of the longer side, with its EOS."""
        return max(map(len, self.ids)) + 1


def encode_pairs(codec: TextCodec, texts: Sequence[tuple[str, str]]) -> list[EncodedPair]:
    """Encodes both sides of each pair."""
    encoded = codec.encode_pairs(texts)
    return [EncodedPair(*sides, ids) for sides, ids in zip(texts, encoded, strict=True)]


def longest_pair(config: Config, batch_tokens: int) -> int:
    """Says how many ids the longer side of a pair may have, with its EOS."""
    longest = max(batch_tokens, config.data.max_tokens + 1)
    most = config.model.most_tokens
    return longest if most is None else min(longest, most + 1)


def check_lengths(pairs: Sequence[EncodedPair], config: Config, batch_tokens: int) -> None:
    """Refuses pairs that are too long to read: unlike a text to translate, none is cut."""
    longest = longest_pair(config, batch_tokens)
    cure = "divide it, or raise decode.batch_tokens; time and memory grow with its square"
    if config.model.most_tokens is not None and longest > config.model.most_tokens:
        cure = "the model has no more positions: divide it"
    for number, pair in enumerate(pairs, start=1):
        if pair.length > longest:
            sizes = f"{pair.length} pieces, and at most {longest} are read at once"
            raise UntoldError(f"pair {number} has a side of {sizes}: {cure}")


@dataclass(frozen=True)
class ForwardPass:
    """A batch of given pairs, and what a model predicts at all of its positions."""

    model: Scorable
    rows: Sequence[int]  # the places of the batch's pairs in the list that was given
    batch: Batch
    outputs: Any

    @cached_property
    def log_probabilities(self) -> Float[Tensor, "b t"]:
        """Computes log p of the labels; padding gets zero, and its logits are never computed."""
        real = self.batch.target_mask
        places = (part.split(_POSITIONS) for part in real.nonzero(as_tuple=True))
        parts = []
        for rows, steps in zip(*places, strict=True):
            logits = self.model.scores(self.outputs, rows, steps).float()
            parts.append(-F.cross_entropy(logits, self.batch.labels[rows, steps], reduction="none"))
        return torch.zeros(real.shape, device=real.device).masked_scatter(real, torch.cat(parts))

    @torch.inference_mode()
    def hypotheses(
        self, alpha: float, coverage: CoveragePenalty | None = None, *, attention: bool = False
    ) -> list[Hypothesis]:
        """Scores each target as a search would that has these penalties; `alpha` is of lengths."""
        batch, signals = self.batch, self.outputs.signals
        bad = self.log_probabilities.isnan().any(1).nonzero().flatten().tolist()
        if bad:
            raise UntoldError(f"sentence {int(batch.indices[bad[0]]) + 1}: {NOT_NUMBERS}")
        shown = signals if attention else replace(signals, attention=None)
        hypotheses = [
            _hypothesis(batch, number, self.log_probabilities[number], shown, alpha)
            for number in range(len(batch.source))
        ]
        if coverage is None:
            return hypotheses
        covered = coverage.of_targets(signals, batch.target_mask)
        penalties = coverage_penalty(covered, batch.source_words, coverage.beta).tolist()
        return [
            replace(hypothesis, score=hypothesis.score + penalty)
            for hypothesis, penalty in zip(hypotheses, penalties, strict=True)
        ]


def score_pairs(
    model: Scorable,
    batch: Batch,
    alpha: float,
    coverage: CoveragePenalty | None = None,
    *,
    attention: bool = False,
) -> list[Hypothesis]:
    """Scores each target of one batch: see `ForwardPass.hypotheses`."""
    by_attention = coverage is not None and coverage.by_attention
    rows = range(len(batch.source))
    forward = _run(model, rows, batch, attention=attention or by_attention)
    return forward.hypotheses(alpha, coverage, attention=attention)


def forward_passes(
    model: Scorable,
    codec: TextCodec,
    pairs: Sequence[EncodedPair],
    batch_tokens: int,
    *,
    attention: bool = False,
) -> Iterator[ForwardPass]:
    """Runs a model over pairs in batches of similar length; each pair is in one of them."""
    for rows in plan_by_length([pair.length for pair in pairs], batch_tokens):
        batch = codec.batch([pairs[row].ids for row in rows], rows)
        yield _run(model, rows, batch, attention=attention)


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class ReadPair:
    """A pair as a model has read it: T pieces of the target and I of the source, without ends.

    `links` say where each source piece was translated: column i sums to at most one, and what is
    left of it was not translated. `origins` say which source piece each target piece translates;
    what a row lacks to one is explained by nothing in the source.
    """

    source: tuple[str, ...]  # pieces
    target: tuple[str, ...]
    shares: Float[np.ndarray, "t1 i 3"]  # past, future, redundant before each piece and the end
    links: Float[np.ndarray, "t i"]
    origins: Float[np.ndarray, "t i"]
    alone: Float[np.ndarray, " i"]  # how far a source piece explains no target piece
    covered: Float[np.ndarray, " i"]  # at the end; nan if the model has no coverage
    log_probabilities: Float[np.ndarray, " t1"]  # of each target piece and of the end
    texts: tuple[str, str] = ("", "")

    @cached_property
    def source_words(self) -> tuple[Word, ...]:
        """The words of the source as they are displayed."""
        return words(self.texts[0], self.source)

    @cached_property
    def target_words(self) -> tuple[Word, ...]:
        """The words of the target as they are displayed."""
        return words(self.texts[1], self.target)


class PairReader:
    """Reads pairs with one model that separates past and future."""

    def __init__(self, trained: Trained, batch_tokens: int = 4096) -> None:
        if trained.model.past_future is None:
            raise UntoldError(CANNOT_TELL)
        self.trained, self.codec = trained, trained.codec
        self.batch_tokens = batch_tokens
        self.longest = longest_pair(trained.config, batch_tokens)

    def encode(self, texts: Sequence[tuple[str, str]]) -> list[EncodedPair]:
        """Encodes both sides of each pair."""
        return encode_pairs(self.codec, texts)

    def encode_pieces(
        self,
        texts: Sequence[tuple[str, str]],
        pieces: Sequence[tuple[Sequence[str], Sequence[str]]],
    ) -> list[EncodedPair]:
        """Encodes pairs that are in pieces already; a search may cut words unlike the tokenizer."""
        source, target = self.codec.tokenizers.source, self.codec.tokenizers.target
        encoded = [(source.ids(one), target.ids(other)) for one, other in pieces]
        return [EncodedPair(*sides, ids) for sides, ids in zip(texts, encoded, strict=True)]

    def fits(self, pair: EncodedPair) -> bool:
        """Tells whether a pair is short enough: memory grows with the square of its length."""
        return pair.length <= self.longest

    def read(
        self,
        pairs: Sequence[EncodedPair],
        on_progress: Callable[[int], object] | None = None,
    ) -> list[ReadPair]:
        """Reads each pair; `on_progress` is told after every batch how many more were read."""
        check_lengths(pairs, self.trained.config, self.batch_tokens)
        read: dict[int, ReadPair] = {}
        for forward in forward_passes(self.trained.model, self.codec, pairs, self.batch_tokens):
            read.update(zip(forward.rows, self.read_pass(forward, pairs), strict=True))
            if on_progress is not None:
                on_progress(len(forward.rows))
        return [read[row] for row in range(len(pairs))]

    @torch.inference_mode()
    def read_pass(self, forward: ForwardPass, pairs: Sequence[EncodedPair]) -> list[ReadPair]:
        """Reads the pairs of a pass of this model."""
        batch = forward.batch
        log_probabilities = forward.log_probabilities.cpu().numpy()
        figures = self._figures(forward.outputs, batch)
        figures = [values.float().cpu().numpy() for values in figures]
        tokenizers = self.codec.tokenizers
        read = []
        for number, row in enumerate(forward.rows):
            pair = pairs[row]
            shares, links, origins, alone, covered = (values[number] for values in figures)
            i, t = map(len, pair.ids)
            read.append(
                ReadPair(
                    tuple(tokenizers.source.pieces(pair.ids[0])),
                    tuple(tokenizers.target.pieces(pair.ids[1])),
                    shares[: t + 1, :i],
                    links[:t, :i],
                    origins[:t, :i],
                    alone[:i],
                    covered[t, :i],
                    log_probabilities[number, : t + 1],
                    (pair.source, pair.target),
                )
            )
        return read

    def _figures(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, ...]:
        """Returns shares, links, origins, what is alone, and coverage of a batch."""
        separated, past_future = outputs.separated, self.trained.model.past_future
        assert separated is not None and past_future is not None
        shares, covered = separated.shares, separated.covered
        if covered is None:
            covered = torch.full_like(shares[..., PAST], torch.nan)
        lexicon = past_future.heads.lexicon
        if lexicon is None:
            rise = (shares[:, 1:, :, PAST] - shares[:, :-1, :, PAST]).clamp(min=0)
            rise = rise * batch.source_words[:, None] * batch.target_mask[:, 1:, None]
            links = rise / rise.sum(1, keepdim=True).clamp(min=1)
            origins = rise / rise.sum(2, keepdim=True).clamp(min=1)
            return shares, links, origins, 1 - links.sum(1), covered
        links, _ = find_links(lexicon, shares, batch)
        return shares, links.words, links.origins[..., :-1], links.alone, covered


@torch.inference_mode()
def _run(model: Scorable, rows: Sequence[int], batch: Batch, *, attention: bool) -> ForwardPass:
    outputs = model(batch.source, batch.source_mask, batch.prefix, attention=attention)
    return ForwardPass(model, rows, batch, outputs)


def _hypothesis(
    batch: Batch,
    number: int,
    log_probabilities: Float[Tensor, " t"],
    shown: Signals[Tensor],
    alpha: float,
) -> Hypothesis:
    real: Bool[Tensor, " t"] = batch.target_mask[number]
    values = log_probabilities[real].tolist()
    source = batch.source_mask[number]
    return Hypothesis(
        tokens=tuple(batch.labels[number, real].tolist()[:-1]),
        score=sum(values) / length_penalty(float(len(values)), alpha),
        log_probability=sum(values),
        token_log_probabilities=tuple(values),
        signals=shown.map(lambda signal: signal[number, real][:, source]),
    )
