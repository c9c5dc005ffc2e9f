"""Pairs of ids in memory, read in batches like a store on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["PairsInMemory"]


@dataclass(frozen=True)
class PairsInMemory:
    """Pairs of ids without control tokens; a PairStore."""

    pairs: Sequence[tuple[Sequence[int], Sequence[int]]]

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """Ids of each source."""
        return np.array([len(source) for source, _ in self.pairs], dtype=np.int64)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """Ids of each target."""
        return np.array([len(target) for _, target in self.pairs], dtype=np.int64)

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Source and target ids of one pair."""
        source, target = self.pairs[index]
        return np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)

    def where(self, index: int) -> str:
        """The number of the pair."""
        return f"pair {index}"
