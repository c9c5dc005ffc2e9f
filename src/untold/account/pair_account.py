"""Reads given translations, in one pass each, and notes what happened to every piece."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from untold.categories import PAST
from untold.corpus.batching import Batch, plan_by_length
from untold.corpus.codec import IdPair
from untold.decoding import token_log_probabilities
from untold.errors import UntoldError
from untold.models.seq2seq import Outputs
from untold.models.translation_table import find_links
from untold.storage.model_directory import TrainedModel

__all__ = ["NO_ACCOUNT", "AccountReader", "PairAccount"]

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
