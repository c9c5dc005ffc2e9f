"""Batching by token count: a batch holds pairs of similar length, (seed, epoch) fix the order.

An epoch is planned at once from the lengths alone. A plan therefore costs a few bytes a pair, a run
can resume at any batch by its number, and every process knows what all the others do.

The text codec: text in, batches of ids on a device out; the one place where the two meet.

Training data, validation, translation, scoring and every analysis encode their text here, so that
all of them normalise it in the same way.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from untold.corpus.tokenizer import SpecialIds, Tokenizers

Ids = Sequence[int] | np.ndarray
Collate = Callable[[Sequence[tuple[Ids, Ids]], Sequence[int] | np.ndarray], "Batch"]


@runtime_checkable
class PairStore(Protocol):
    """A tokenised corpus that batches can be made from."""

    @property
    def source_lengths(self) -> np.ndarray:
        """Counts the ids of each source, without BOS and EOS."""
        ...

    @property
    def target_lengths(self) -> np.ndarray:
        """Counts the ids of each target, without BOS and EOS."""
        ...

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns source and target ids of one pair, without BOS and EOS."""
        ...

    def where(self, index: int) -> str:
        """Names the pair's place in the corpus, for messages."""
        ...


@dataclass(frozen=True)
class PairsInMemory:
    """Holds pairs of ids without control tokens in memory; a PairStore."""

    pairs: Sequence[tuple[Sequence[int], Sequence[int]]]

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """Counts the ids of each source."""
        return np.array([len(source) for source, _ in self.pairs], dtype=np.int64)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """Counts the ids of each target."""
        return np.array([len(target) for _, target in self.pairs], dtype=np.int64)

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns source and target ids of one pair."""
        source, target = self.pairs[index]
        return np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)

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
    """Makes a batch of pairs of ids without control tokens; the source, too, ends in EOS.

    `special` are the special ids of the source's and of the target's vocabulary.
    """
    own, theirs = special
    source, source_mask = pad_rows([np.append(source, own.eos) for source, _ in pairs], own.pad)
    labels, target_mask = pad_rows(
        [np.append(target, theirs.eos) for _, target in pairs], theirs.pad
    )
    prefix = torch.cat([torch.full((len(pairs), 1), theirs.bos), labels[:, :-1]], dim=1)
    prefix = prefix.masked_fill(~target_mask, theirs.pad)
    numbers = torch.as_tensor(np.asarray(indices))
    words = source_mask & (source != own.eos)
    return Batch(source, source_mask, prefix, labels, target_mask, numbers, words, theirs)


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

    def read(self, store: PairStore, number: int) -> list[tuple[Ids, Ids]]:
        """Reads the ids of a batch's pairs."""
        return [store.pair(int(index)) for index in self.indices(number)]

    def batches(self, store: PairStore, make: Collate) -> Iterator[Batch]:
        """Makes all batches in order."""
        for number in range(len(self)):
            yield make(self.read(store, number), self.indices(number))


def plan_epoch(
    store: PairStore, batch_tokens: int, seed: int, epoch: int, *, shuffle: bool = True
) -> BatchPlan:
    """Plans every pair once, in batches of at most batch_tokens padded tokens on either side.

    A pair that is longer than that makes a batch of its own. Pairs are sorted by their longer side,
    which the limit counts, and among equal ones by the difference of both, up and down in turn: so
    both sides of neighbours are alike, and little of either side is padding.
    """
    source, target = _lengths(store)
    longer, difference = np.maximum(source, target), target - source
    difference = np.where(longer % 2, difference, -difference)
    return _plan((source, target), batch_tokens, (difference, longer), _Draws(seed, epoch, shuffle))


def plan_epoch_by_target(
    store: PairStore, batch_tokens: int, seed: int, epoch: int, *, shuffle: bool = True
) -> BatchPlan:
    """Plans an epoch with pairs sorted by target and then by source, as older versions did."""
    sides = _lengths(store)
    return _plan(sides, batch_tokens, sides, _Draws(seed, epoch, shuffle))


@dataclass(frozen=True)
class _Draws:
    """Says what fixes the random order of an epoch."""

    seed: int
    epoch: int
    shuffle: bool


def _lengths(store: PairStore) -> tuple[np.ndarray, np.ndarray]:
    """Counts the tokens of each source and each target, EOS included."""
    source = np.asarray(store.source_lengths, dtype=np.int64) + 1
    return source, np.asarray(store.target_lengths, dtype=np.int64) + 1


def _plan(
    sides: tuple[np.ndarray, np.ndarray],
    batch_tokens: int,
    keys: tuple[np.ndarray, np.ndarray],
    draws: _Draws,
) -> BatchPlan:
    """Sorts the pairs by keys, of which the last counts most, and cuts them into batches."""
    source, target = sides
    generator = np.random.default_rng([draws.seed, draws.epoch])
    order = generator.permutation(len(source)) if draws.shuffle else np.arange(len(source))
    # Stable: pairs of equal lengths stay shuffled, so that batches differ between epochs.
    order = order[np.lexsort((keys[0][order], keys[1][order]))]
    starts = _cut(source[order], target[order], batch_tokens)
    count = len(starts) - 1
    batches = generator.permutation(count) if draws.shuffle else np.arange(count)
    return BatchPlan(order, starts, batches)


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
