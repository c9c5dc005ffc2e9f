"""Batches by token count: similar lengths together, in an order that (seed, epoch) determines.

An epoch is planned at once from the lengths alone, so a plan costs a few bytes a pair, a run
resumes at any batch by its number, and every process can know what all the others do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from untold.corpus.vocabulary import BOS, EOS, PAD

__all__ = [
    "Batch",
    "BatchPlan",
    "Ids",
    "PairStore",
    "collate",
    "pad_rows",
    "plan_by_length",
    "plan_epoch",
]

Ids = Sequence[int] | np.ndarray


@runtime_checkable
class PairStore(Protocol):
    """What batches need to know of a tokenised corpus."""

    @property
    def source_lengths(self) -> np.ndarray:
        """Ids of each source, without BOS and EOS."""
        ...

    @property
    def target_lengths(self) -> np.ndarray:
        """Ids of each target, without BOS and EOS."""
        ...

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Source and target ids of one pair, without BOS and EOS."""
        ...

    def where(self, index: int) -> str:
        """The pair's place in the corpus, for messages."""
        ...


@dataclass(frozen=True)
class Batch:
    """Pairs as tensors. `prefix` is BOS y_1 .. y_T, `labels` y_1 .. y_T EOS. True = real token."""

    source: Int[Tensor, "b i"]
    source_mask: Bool[Tensor, "b i"]
    prefix: Int[Tensor, "b t"]
    labels: Int[Tensor, "b t"]
    target_mask: Bool[Tensor, "b t"]
    indices: Int[Tensor, " b"]  # which pairs of the corpus

    @cached_property
    def target_tokens(self) -> int:
        """Real target tokens, each sentence's EOS among them."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        names = ("source", "source_mask", "prefix", "labels", "target_mask")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def pad_rows(rows: Sequence[Ids]) -> tuple[Int[Tensor, "b i"], Bool[Tensor, "b i"]]:
    """Rows of ids, padded on the right, and the mask of what is real."""
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), int(lengths.max(initial=1))), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    mask = np.arange(padded.shape[1]) < lengths[:, None]
    return torch.from_numpy(padded), torch.from_numpy(mask)


def collate(pairs: Sequence[tuple[Ids, Ids]], indices: Sequence[int] | np.ndarray) -> Batch:
    """Pairs of ids without control tokens become a batch with them; the source ends in EOS, too."""
    source, source_mask = pad_rows([np.append(source, EOS) for source, _ in pairs])
    labels, target_mask = pad_rows([np.append(target, EOS) for _, target in pairs])
    prefix = torch.cat([torch.full((len(pairs), 1), BOS), labels[:, :-1]], dim=1)
    prefix = prefix.masked_fill(~target_mask, PAD)
    return Batch(
        source, source_mask, prefix, labels, target_mask, torch.as_tensor(np.asarray(indices))
    )


@dataclass(frozen=True)
class BatchPlan:
    """The batches of one epoch: `order[starts[k]:starts[k + 1]]` are the pairs of the k-th cut."""

    order: np.ndarray
    starts: np.ndarray
    shuffle: np.ndarray  # the k-th batch is cut shuffle[k]

    def __len__(self) -> int:
        return len(self.shuffle)

    def indices(self, number: int) -> np.ndarray:
        """The pairs of the batch with this number."""
        cut = self.shuffle[number]
        return self.order[self.starts[cut] : self.starts[cut + 1]]

    def read(self, store: PairStore, number: int) -> list[tuple[Ids, Ids]]:
        """The ids of the batch with this number."""
        return [store.pair(int(index)) for index in self.indices(number)]

    def batch(self, pairs: Sequence[tuple[Ids, Ids]], number: int) -> Batch:
        """The batch with this number, from its pairs as read or as cut anew."""
        return collate(pairs, self.indices(number))

    def batches(self, store: PairStore) -> Iterator[Batch]:
        """All batches in order."""
        for number in range(len(self)):
            yield self.batch(self.read(store, number), number)


def plan_epoch(
    store: PairStore, batch_tokens: int, seed: int, epoch: int, *, shuffle: bool = True
) -> BatchPlan:
    """Every pair exactly once; no batch's padded size exceeds batch_tokens on either side.

    A pair that is longer than that alone makes a batch of its own.
    """
    source = np.asarray(store.source_lengths, dtype=np.int64) + 1
    target = np.asarray(store.target_lengths, dtype=np.int64) + 1
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(source)) if shuffle else np.arange(len(source))
    # Stable: pairs of equal lengths stay shuffled, so that batches differ between epochs.
    order = order[np.lexsort((source[order], target[order]))]
    starts = _cut(source[order], target[order], batch_tokens)
    count = len(starts) - 1
    batches = generator.permutation(count) if shuffle else np.arange(count)
    return BatchPlan(order, starts, batches)


def plan_by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Batches of indices, longest first, each of at most batch_tokens padded tokens."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _cut(source: np.ndarray, target: np.ndarray, batch_tokens: int) -> np.ndarray:
    starts, first, longest = [0], 0, 0
    for position, (s, t) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        longest = max(longest, s, t)
        if position > first and (position - first + 1) * longest > batch_tokens:
            starts.append(position)
            first, longest = position, max(s, t)
    if len(source):
        starts.append(len(source))
    return np.asarray(starts, dtype=np.int64)
