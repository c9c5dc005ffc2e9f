"""Batching by token count: a batch holds pairs of similar length, (seed, epoch) fix the order.

An epoch is planned at once from the lengths alone. A plan therefore costs a few bytes a pair, a run
can resume at any batch by its number, and every process knows what all the others do.

TextCodec is the one place where text becomes ids: training, validation, translation, scoring and
every analysis encode their text with it, so that all of them normalise it in the same way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32
from torch import Tensor

from untold.corpus.tokenizer import SpecialIds, Tokenizers

Ids = Sequence[int] | np.ndarray


@dataclass(frozen=True)
class Sentences:
    """One side of a corpus: sentence k is `ids[offsets[k]:offsets[k + 1]]`, without BOS and EOS."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Ids]) -> "Sentences":
        """Joins rows of ids."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, count=len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int64, count=int(lengths.sum()))
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @cached_property
    def lengths(self) -> Int32[np.ndarray, " pairs"]:
        """Counts the ids of each sentence."""
        return np.diff(self.offsets).astype(np.int32)

    def padded(
        self, indices: np.ndarray, special: SpecialIds
    ) -> tuple[Int[Tensor, "b t"], Bool[Tensor, "b t"]]:
        """Pads the chosen sentences, each with its EOS, on the right; returns their mask, too."""
        starts, lengths = self.offsets[indices], self.lengths[indices].astype(np.int64)
        before = np.cumsum(lengths) - lengths
        words = self.ids[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]
        columns = np.arange(int(lengths.max(initial=0)) + 1)
        rows = np.full((len(indices), len(columns)), special.pad, dtype=np.int64)
        rows[columns < lengths[:, None]] = words
        rows[np.arange(len(indices)), lengths] = special.eos
        return torch.from_numpy(rows), torch.from_numpy(columns <= lengths[:, None])


@runtime_checkable
class PairStore(Protocol):
    """A tokenised corpus that batches can be made from: training.data's Store, or PairsInMemory."""

    @property
    def sides(self) -> tuple[Sentences, Sentences]:
        """Returns the sources and the targets."""
        ...

    def where(self, index: int) -> str:
        """Names the pair's place in the corpus, for messages."""
        ...


@dataclass(frozen=True)
class PairsInMemory:
    """Holds pairs of ids without control tokens in memory; a PairStore."""

    pairs: Sequence[tuple[Ids, Ids]]

    @cached_property
    def sides(self) -> tuple[Sentences, Sentences]:
        """Returns the sources and the targets."""
        return Sentences.of([pair[0] for pair in self.pairs]), Sentences.of(
            [pair[1] for pair in self.pairs]
        )

    def where(self, index: int) -> str:
        """Names the pair by its number, counting from 1."""
        return f"pair {index + 1}"


@dataclass(frozen=True)
class Batch:
    """Holds pairs as tensors: `prefix` is BOS y_1 .. y_T, `labels` is y_1 .. y_T EOS.

    A mask is True at real tokens and False at padding.
    """

    source: Int[Tensor, "b i"]
    source_mask: Bool[Tensor, "b i"]
    prefix: Int[Tensor, "b t"]
    labels: Int[Tensor, "b t"]
    target_mask: Bool[Tensor, "b t"]
    indices: Int[Tensor, " b"]  # the numbers of the pairs in the corpus
    source_words: Bool[Tensor, "b i"]  # True at real tokens but the final EOS
    special: SpecialIds  # of the target's vocabulary

    @cached_property
    def target_tokens(self) -> int:
        """Counts the real target tokens, each sentence's EOS included."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device) -> "Batch":
        """Copies the batch to a device; the indices stay where they are."""
        names = ("source", "source_mask", "prefix", "labels", "target_mask", "source_words")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def pad_rows(rows: Sequence[Ids], pad: int) -> tuple[Int[Tensor, "b i"], Bool[Tensor, "b i"]]:
    """Pads rows of ids on the right; returns them with the mask of real tokens."""
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    padded = np.full((len(rows), int(lengths.max(initial=1))), pad, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    mask = np.arange(padded.shape[1]) < lengths[:, None]
    return torch.from_numpy(padded), torch.from_numpy(mask)


def collate(
    pairs: Sequence[tuple[Ids, Ids]],
    indices: Sequence[int] | np.ndarray,
    special: tuple[SpecialIds, SpecialIds],
) -> Batch:
    """Makes a batch of pairs of ids without control tokens; `indices` are their numbers.

    `special` are the special ids of the source's and of the target's vocabulary.
    """
    places = np.arange(len(pairs))
    batch = make_batch(PairsInMemory(pairs), places, special)
    return replace(batch, indices=torch.as_tensor(np.asarray(indices)))


def make_batch(
    store: PairStore, indices: np.ndarray, special: tuple[SpecialIds, SpecialIds]
) -> Batch:
    """Makes a batch of the chosen pairs of a store; the source, too, ends in EOS."""
    (source, source_mask), (labels, target_mask) = (
        side.padded(indices, ids) for side, ids in zip(store.sides, special, strict=True)
    )
    target = special[1]
    begin = torch.full((len(indices), 1), target.bos)
    prefix = torch.cat([begin, labels[:, :-1]], dim=1).masked_fill(~target_mask, target.pad)
    words = source_mask & (source != special[0].eos)
    numbers = torch.as_tensor(indices)
    return Batch(source, source_mask, prefix, labels, target_mask, numbers, words, target)


@dataclass(frozen=True)
class BatchPlan:
    """Plans the batches of one epoch: cut k holds the pairs `order[starts[k]:starts[k + 1]]`."""

    order: np.ndarray
    starts: np.ndarray
    shuffle: np.ndarray  # the k-th batch is cut shuffle[k]

    def __len__(self) -> int:
        return len(self.shuffle)

    def indices(self, number: int) -> np.ndarray:
        """Lists the numbers of the pairs in a batch."""
        cut = self.shuffle[number]
        return self.order[self.starts[cut] : self.starts[cut + 1]]


def plan_epoch(
    store: PairStore, batch_tokens: int, seed: int, epoch: int, *, shuffle: bool = True
) -> BatchPlan:
    """Plans every pair once, in batches of at most batch_tokens padded tokens on either side.

    A pair that is longer than that makes a batch of its own. Pairs are sorted by their longer side,
    which the limit counts, and among equal ones by the difference of both, up and down in turn: so
    both sides of neighbours are alike, and little of either side is padding.
    """
    source, target = (side.lengths.astype(np.int64) + 1 for side in store.sides)  # with EOS
    longer, difference = np.maximum(source, target), target - source
    difference = np.where(longer % 2, difference, -difference)
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(source)) if shuffle else np.arange(len(source))
    # Stable: pairs of equal lengths stay shuffled, so that batches differ between epochs.
    order = order[np.lexsort((difference[order], longer[order]))]
    starts = _cut(longer[order], batch_tokens)
    count = len(starts) - 1
    return BatchPlan(order, starts, generator.permutation(count) if shuffle else np.arange(count))


def plan_by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Groups indices by length, longest first, into batches of at most batch_tokens tokens."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _cut(lengths: np.ndarray, batch_tokens: int) -> np.ndarray:
    """Cuts rising lengths into batches of at most batch_tokens tokens, padding counted."""
    starts, first = [0], 0
    for position, length in enumerate(lengths.tolist()):
        if position > first and (position - first + 1) * length > batch_tokens:
            starts.append(position)
            first = position
    if len(lengths):
        starts.append(len(lengths))
    return np.asarray(starts, dtype=np.int64)


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
        return collate(pairs, indices, self.special).to(self.device)

    def stored_batch(self, store: PairStore, indices: np.ndarray) -> Batch:
        """Makes a batch of the chosen pairs of a store on the codec's device."""
        batch = make_batch(store, indices, self.special)
        return batch if self.device.type == "cpu" else batch.to(self.device)

    def batches(self, store: PairStore, plan: BatchPlan) -> Iterator[Batch]:
        """Makes all batches of an epoch in order."""
        for number in range(len(plan)):
            yield self.stored_batch(store, plan.indices(number))

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
