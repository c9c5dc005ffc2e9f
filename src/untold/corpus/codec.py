"""The text codec: text in, batches of ids on a device out; the one place where the two meet.

Training data, validation, translation, scoring and every analysis encode their text here, so that
all of them normalise it in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from untold.corpus.batching import Batch, Ids, collate, pad_rows
from untold.corpus.tokenizer import Tokenizers
from untold.corpus.vocabulary import SpecialIds

__all__ = ["IdPair", "TextCodec"]

IdPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class TextCodec:
    """Normalises, encodes and batches text for one model."""

    tokenizers: Tokenizers
    lowercase: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the tokenizers do; the store notes lower-casing by itself."""
        return self.tokenizers.fingerprint

    @cached_property
    def special(self) -> tuple[SpecialIds, SpecialIds]:
        """Names the special ids of the source's and of the target's vocabulary."""
        return self.tokenizers.special_ids

    @cached_property
    def size(self) -> int:
        """Bounds the ids of either side."""
        return max(self.tokenizers.sizes)

    def normalise(self, text: str) -> str:
        """Returns the text as the model reads it."""
        return text.lower() if self.lowercase else text

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of source texts, without special ids."""
        return self.tokenizers.source.encode([self.normalise(text) for text in texts])

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of target texts, without special ids."""
        return self.tokenizers.target.encode([self.normalise(text) for text in texts])

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[IdPair]:
        """Returns the ids of both sides of each pair."""
        sources = self.encode_sources([source for source, _ in pairs])
        targets = self.encode_targets([target for _, target in pairs])
        return list(zip(sources, targets, strict=True))

    def batch(self, pairs: Sequence[tuple[Ids, Ids]], indices: Sequence[int] | np.ndarray) -> Batch:
        """Makes a batch of pairs of ids on the codec's device."""
        batch = collate(pairs, indices, self.special)
        return batch if self.device.type == "cpu" else batch.to(self.device)

    def pad_sources(self, rows: Sequence[Ids]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ends each source with EOS and pads; returns ids and mask on the codec's device."""
        special = self.tokenizers.source.special_ids
        ids, mask = pad_rows([(*row, special.eos) for row in rows], special.pad)
        return ids.to(self.device), mask.to(self.device)

    def resample(
        self, pairs: Sequence[tuple[Ids, Ids]], dropout: float, seed: int
    ) -> list[tuple[Ids, Ids]]:
        """Segments the words of encoded pairs anew with BPE-dropout."""
        sides: list[list[list[int]]] = []
        for number, tokenizer in enumerate((self.tokenizers.source, self.tokenizers.target)):
            texts = [tokenizer.decode([int(i) for i in pair[number]]) for pair in pairs]
            sides.append(tokenizer.encode_sampled(texts, dropout, seed + number))
        return list(zip(*sides, strict=True))
