"""Reads a corpus as a stream: a window of so many pairs at a time is in memory, and nothing else.

An epoch goes through all files in an order that (seed, epoch) fix. Its pairs are cut into windows,
before any pair is dropped, so that a window is found again by its number without encoding what
stands before it. Within a window pairs are shuffled and batched by length as in a whole corpus.

Every process of a run has the same windows, and computes its share of their batches. It reads all
lines, which is cheap, encodes its share of them, and gets the others from the other processes.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from untold.config import CorpusConfig
from untold.corpus.corpora import Pair
from untold.corpus.filters import Limits, has_too_many_words, reason_to_drop
from untold.corpus.store import PairEncoder
from untold.corpus.stream.shard_files import expand_corpus
from untold.corpus.stream.shard_reader import describe_shard, read_shard
from untold.errors import UntoldError

_CHUNK_PAIRS = 10_000  # pairs that are encoded at a time

Encoded = tuple[np.ndarray, np.ndarray]  # the ids of source and target


@runtime_checkable
class EncodingProcesses(Protocol):
    """The processes that share the work of encoding; all of them ask for the same windows."""

    @property
    def rank(self) -> int:
        """Returns the number of this process."""
        ...

    @property
    def world_size(self) -> int:
        """Counts the processes."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Returns the values of all processes, in the order of their ranks."""
        ...


@dataclass(frozen=True)
class StreamWindow:
    """Holds the kept pairs of one window as ids; a PairStore."""

    pairs: tuple[Encoded, ...]
    places: tuple[str, ...]
    is_last: bool  # of its epoch

    @cached_property
    def source_lengths(self) -> np.ndarray:
        """Counts the ids of each source."""
        return np.array([len(source) for source, _ in self.pairs], dtype=np.int64)

    @cached_property
    def target_lengths(self) -> np.ndarray:
        """Counts the ids of each target."""
        return np.array([len(target) for _, target in self.pairs], dtype=np.int64)

    def pair(self, index: int) -> Encoded:
        """Returns source and target ids of one pair."""
        return self.pairs[index]

    def where(self, index: int) -> str:
        """Names the pair's place as file:line."""
        return self.places[index]


class PairStream:
    """Gives the windows of a corpus one after the other; another order costs reading again."""

    def __init__(
        self,
        corpora: Sequence[CorpusConfig],
        root: Path,
        encoder: PairEncoder,
        limits: Limits,
        window_pairs: int,
    ) -> None:
        self._shards = [shard for each in corpora for shard in expand_corpus(each, root)]
        self._root, self._encoder, self._limits = root, encoder, limits
        self._size = window_pairs
        self._next: tuple[int, int, int] | None = None  # seed, epoch and number of the window
        self._rows: Iterator[Pair] = iter(())
        self._kept = 0  # pairs since the epoch began; it must not end without any

    @property
    def report(self) -> str:
        """Says what is read, for the log."""
        return f"a stream of {len(self._shards)} files or datasets, {self._size:,} pairs at a time"

    @cached_property
    def fingerprint(self) -> str:
        """Changes when files are replaced, when the tokenizers do, or when windows are cut anew."""
        described = {
            "shards": [describe_shard(shard, self._root) for shard in self._shards],
            "tokenizer": self._encoder.fingerprint,
            "lowercase": self._encoder.lowercase,
            "limits": repr(self._limits),
            "window": self._size,
        }
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def window(
        self, seed: int, epoch: int, number: int, processes: EncodingProcesses | None = None
    ) -> StreamWindow:
        """Reads and encodes a window of an epoch; it is empty if the epoch has no such window.

        If there are `processes`, all of them must call this together.
        """
        if self._next != (seed, epoch, number):
            self._kept = 0
            self._rows = itertools.islice(self._read(seed, epoch), number * self._size, None)
        rows = list(itertools.islice(self._rows, self._size))
        encoded = self._encode_together(rows, processes)
        kept = [(row, pair) for row, pair in zip(rows, encoded, strict=True) if pair is not None]
        places = tuple(f"{row.file}:{row.line}" for row, _ in kept)
        window = StreamWindow(tuple(pair for _, pair in kept), places, len(rows) < self._size)
        self._kept += len(window.pairs)
        self._next = (seed, epoch, number + 1)
        if window.is_last and not self._kept and not number:
            raise UntoldError("data.train: nothing to learn from: every pair is empty or too long")
        return window

    def _read(self, seed: int, epoch: int) -> Iterator[Pair]:
        order = np.random.default_rng([seed, epoch]).permutation(len(self._shards))
        return itertools.chain.from_iterable(
            read_shard(self._shards[number], self._root) for number in order
        )

    def _encode_together(
        self, rows: Sequence[Pair], processes: EncodingProcesses | None
    ) -> list[Encoded | None]:
        """Returns the ids of each pair, of which every process encodes some; None is a drop."""
        if processes is None or processes.world_size == 1:
            return self._encode(rows)
        share = -(-len(rows) // processes.world_size)
        first = processes.rank * share
        own = _pack(self._encode(rows[first : first + share]))
        return [pair for packed in processes.all_gather(own) for pair in _unpack(*packed)]

    def _encode(self, rows: Sequence[Pair]) -> list[Encoded | None]:
        made: list[Encoded | None] = []
        for start in range(0, len(rows), _CHUNK_PAIRS):
            chunk = rows[start : start + _CHUNK_PAIRS]
            encoded = self._encoder.encode_pairs([(pair.source, pair.target) for pair in chunk])
            for pair, (source, target) in zip(chunk, encoded, strict=True):
                kept = self._is_kept(pair, len(source), len(target))
                made.append(
                    (np.array(source, np.int32), np.array(target, np.int32)) if kept else None
                )
        return made

    def _is_kept(self, pair: Pair, source: int, target: int) -> bool:
        if not pair.source.strip() or not pair.target.strip():
            return False
        if has_too_many_words((pair.source, pair.target), self._limits):
            return False
        return reason_to_drop(source, target, self._limits) is None


_DROPPED = -1


def _pack(pairs: Sequence[Encoded | None]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lengths of both sides of each pair and all ids: few large arrays travel fast."""
    dropped = (_DROPPED, _DROPPED)
    lengths = [dropped if pair is None else (len(pair[0]), len(pair[1])) for pair in pairs]
    sides = [side for pair in pairs if pair is not None for side in pair]
    ids = np.concatenate(sides) if sides else np.zeros(0, np.int32)
    return np.array(lengths, np.int32).reshape(-1, 2), ids


def _unpack(lengths: np.ndarray, ids: np.ndarray) -> Iterator[Encoded | None]:
    """Inverts `_pack`."""
    start = 0
    for source, target in lengths.tolist():
        if source == _DROPPED:
            yield None
            continue
        middle, end = start + source, start + source + target
        yield ids[start:middle], ids[middle:end]
        start = end
