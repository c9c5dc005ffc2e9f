"""Teacher forcing: score given translations in one pass over all positions, without a search.

Reads given translations, in one pass each, and notes what happened to every piece.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from untold.corpus.batching import Batch, IdPair, plan_by_length
from untold.decoding.hypotheses import NOT_NUMBERS, Hypothesis, Scorable
from untold.decoding.penalties import CoveragePenalty, coverage_penalty, length_penalty
from untold.errors import UntoldError
from untold.models.seq2seq import Outputs, Signals
from untold.models.signals import PAST
from untold.models.translation_table import find_links
from untold.storage.model_directory import TrainedModel

_POSITIONS = 1024  # logits of so many positions are in memory at a time


@torch.inference_mode()
def score_pairs(
    model: Scorable,
    batch: Batch,
    alpha: float,
    coverage: CoveragePenalty | None = None,
    *,
    attention: bool = False,
) -> list[Hypothesis]:
    """Scores each target as a search with these penalties would; `alpha` is the length penalty."""
    by_attention = coverage is not None and coverage.by_attention
    outputs = model(
        batch.source, batch.source_mask, batch.prefix, attention=attention or by_attention
    )
    log_probs, signals = token_log_probabilities(model, outputs, batch), outputs.signals
    bad = log_probs.isnan().any(1).nonzero().flatten().tolist()
    if bad:
        raise UntoldError(f"sentence {int(batch.indices[bad[0]]) + 1}: {NOT_NUMBERS}")
    shown = signals if attention else replace(signals, attention=None)
    found = [
        _hypothesis(batch, number, log_probs[number], shown, alpha)
        for number in range(len(log_probs))
    ]
    if coverage is None:
        return found
    covered = coverage.of_targets(signals, batch.target_mask)
    penalties = coverage_penalty(covered, batch.source_words, coverage.beta).tolist()
    pairs = zip(found, penalties, strict=True)
    return [replace(each, score=each.score + penalty) for each, penalty in pairs]


def token_log_probabilities(model: Scorable, outputs: Any, batch: Batch) -> Float[Tensor, "b t"]:
    """Computes log p of the labels; padding gets zero, and its logits are never computed."""
    real = batch.target_mask
    places = (part.split(_POSITIONS) for part in real.nonzero(as_tuple=True))
    found = [
        -F.cross_entropy(
            model.scores(outputs, rows, steps).float(), batch.labels[rows, steps], reduction="none"
        )
        for rows, steps in zip(*places, strict=True)
    ]
    return torch.zeros(real.shape, device=real.device).masked_scatter(real, torch.cat(found))


def _hypothesis(
    batch: Batch,
    number: int,
    log_probs: Float[Tensor, " t"],
    shown: Signals[Tensor],
    alpha: float,
) -> Hypothesis:
    real: Bool[Tensor, " t"] = batch.target_mask[number]
    values = log_probs[real].tolist()
    source = batch.source_mask[number]
    return Hypothesis(
        tokens=tuple(batch.labels[number, real].tolist()[:-1]),
        score=sum(values) / length_penalty(float(len(values)), alpha),
        log_probability=sum(values),
        token_log_probabilities=tuple(values),
        signals=shown.map(lambda signal: signal[number, real][:, source]),
    )


NO_ACCOUNT = (
    "the model does not separate past and future, so it cannot tell what is untold: train one with "
    'model.separator.kind = "gdr", or add it to this model with untold train --init MODEL and '
    "train.freeze_backbone = true"
)


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class PairAccount:
    """Notes of one pair, by pieces: T of the target and I of the source, without their ends.

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


class AccountReader:
    """Reads pairs with one model that separates past and future."""

    def __init__(self, trained: TrainedModel, batch_tokens: int = 4096) -> None:
        if trained.model.past_future is None:
            raise UntoldError(NO_ACCOUNT)
        self.trained = trained
        self.codec = trained.codec
        self.batch_tokens = batch_tokens
        self.longest = max(batch_tokens, trained.config.data.max_tokens + 1)  # pieces, with the end
        if (most := trained.config.model.most_tokens) is not None:
            self.longest = min(self.longest, most + 1)

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Tells which pairs are short enough to be read."""
        return [_length(each) <= self.longest for each in self.codec.encode_pairs(pairs)]

    def read(
        self, pairs: Sequence[tuple[str, str]], advance: Callable[[int], object] | None = None
    ) -> list[PairAccount]:
        """Reads each pair of texts; `advance` hears how many more were read after every batch.

        A pair that is longer than `longest` is an error: memory grows with the square of lengths.
        """
        return self._read_ids(self.codec.encode_pairs(pairs), advance)

    def read_pieces(
        self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> list[PairAccount]:
        """Reads pairs in pieces; a search may cut words unlike the tokenizer."""
        of_source, of_target = self.codec.tokenizers.source.ids, self.codec.tokenizers.target.ids
        return self._read_ids([(of_source(source), of_target(target)) for source, target in pairs])

    def _read_ids(
        self, ids: Sequence[IdPair], advance: Callable[[int], object] | None = None
    ) -> list[PairAccount]:
        lengths = [_length(each) for each in ids]
        for number, length in enumerate(lengths, start=1):
            if length > self.longest:
                raise UntoldError(
                    f"pair {number} has a side of {length} pieces, and at most {self.longest} are "
                    "read at once: divide it, or raise decode.batch_tokens"
                )
        found: dict[int, PairAccount] = {}
        for rows in plan_by_length(lengths, self.batch_tokens):
            batch = self.codec.batch([ids[row] for row in rows], rows)
            found.update(zip(rows, self._read_batch(batch), strict=True))
            if advance is not None:
                advance(len(rows))
        return [found[row] for row in range(len(ids))]

    @torch.inference_mode()
    def _read_batch(self, batch: Batch) -> list[PairAccount]:
        model = self.trained.model
        outputs = model(batch.source, batch.source_mask, batch.prefix)
        log_probs = token_log_probabilities(model, outputs, batch).cpu().numpy()
        notes = [each.float().cpu().numpy() for each in self._notes(outputs, batch)]
        source_ids, target_ids = batch.source.tolist(), batch.labels.tolist()
        lengths = batch.source_words.sum(1).tolist(), batch.target_mask.sum(1).tolist()
        found = []
        for row, (i, t1) in enumerate(zip(*lengths, strict=True)):
            shares, links, origins, alone, covered = (each[row] for each in notes)
            found.append(
                PairAccount(
                    tuple(self.codec.tokenizers.source.pieces(source_ids[row][:i])),
                    tuple(self.codec.tokenizers.target.pieces(target_ids[row][: t1 - 1])),
                    shares[:t1, :i],
                    links[: t1 - 1, :i],
                    origins[: t1 - 1, :i],
                    alone[:i],
                    covered[t1 - 1, :i],
                    log_probs[row, :t1],
                )
            )
        return found

    def _notes(self, outputs: Outputs, batch: Batch) -> tuple[torch.Tensor, ...]:
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


def _length(ids: IdPair) -> int:
    return max(map(len, ids)) + 1
