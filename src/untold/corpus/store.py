"""Keeps the tokenised corpus on disk and maps it into memory, so that a corpus may exceed the RAM.

A store is a directory. It holds the concatenated ids of each side (source.ids, target.ids), the
position at which each sentence begins (source.offsets, target.offsets), the input line of each pair
(lines) and a description (store.json).
"""

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from untold.corpus.batching import Sentences
from untold.corpus.corpora import CorpusText, Pair
from untold.corpus.filters import FilterReport, Limits, has_too_many_words, reason_to_drop
from untold.errors import UntoldError, shorten
from untold.files import new_directory, remove_litter, verify_directory
from untold.progress_bar import task, track

_FORMAT = 1
_CHUNK_PAIRS = 10_000  # pairs that are held in memory while a store is built
_SIDES = ("source", "target")
_OFFSET = np.dtype("<i8")


@runtime_checkable
class PairEncoder(Protocol):
    """Turns both sides of pairs into ids; a TextCodec is one."""

    @property
    def fingerprint(self) -> str:
        """Changes when the tokenizers do."""
        ...

    @property
    def size(self) -> int:
        """Bounds the ids of either side."""
        ...

    @property
    def lowercase(self) -> bool:
        """Says whether text is lower-cased before it is encoded."""
        ...

    def encode_pairs(
        self, pairs: Sequence[tuple[str, str]]
    ) -> Sequence[tuple[list[int], list[int]]]:
        """Returns the ids of both sides of each pair, without BOS and EOS."""
        ...


@dataclass(frozen=True)
class Store:
    """Gives pairs of ids by number, and reads them from disk on demand."""

    directory: Path
    fingerprint: str
    report: FilterReport
    files: tuple[tuple[int, str], ...]  # (first pair, file), in order
    sides: tuple[Sentences, Sentences] = field(repr=False)
    _lines: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, index: int) -> int:
        """Returns the input line (or row) of the pair, counted from 1."""
        return int(self._lines[index])

    def where(self, index: int) -> str:
        """Names the pair's place as file:line, for messages."""
        name = [name for first, name in self.files if first <= index][-1]
        return f"{name}:{self.line(index)}"


def prepare(directory: Path, text: CorpusText, encoder: PairEncoder, limits: Limits) -> Store:
    """Opens the store at `directory` if its fingerprint still holds, else builds it anew."""
    remove_litter(directory.parent)
    with task(f"checking the data of {directory.name}"):
        fingerprint = _describe(text, encoder, limits)
        store = _open_if_same(directory, _digest(fingerprint))
    if store is not None:
        return store
    pairs = track(text.pairs(), f"tokenizing {directory.name}", text.count())
    store = build_store(directory, pairs, encoder, limits, fingerprint)
    if _describe(text, encoder, limits) != fingerprint:
        raise UntoldError(f"{directory}: the corpus changed while it was read: start again")
    return store


def _open_if_same(directory: Path, fingerprint: str) -> Store | None:
    """Opens a store unless it is of other data, damaged or of an older format."""
    if not directory.exists():
        return None
    try:
        store = open_store(directory)
    except UntoldError:
        return None
    return store if store.fingerprint == fingerprint else None


def build_store(
    directory: Path,
    pairs: Iterable[Pair],
    encoder: PairEncoder,
    limits: Limits,
    fingerprint: Mapping[str, Any],
) -> Store:
    """Tokenises, filters and writes the pairs in chunks; replaces what is at `directory`."""
    with new_directory(directory, replace=True) as unfinished:
        writer = _Writer(unfinished, encoder.size)
        for chunk in _chunks(pairs):
            ids = encoder.encode_pairs([(pair.source, pair.target) for pair in chunk])
            writer.add(chunk, ids, limits)
        report = FilterReport(writer.kept, dict(writer.dropped))
        if not report.kept:
            raise UntoldError(f"{directory}: nothing to learn from: {report}")
        description = {
            "format": _FORMAT,
            "fingerprint": dict(fingerprint),
            "dtype": writer.dtype.str,
            "report": asdict(report),
            "files": writer.files,
        }
        (unfinished / "store.json").write_text(json.dumps(description, indent=1), encoding="utf-8")
    return open_store(directory)


def open_store(directory: Path) -> Store:
    """Verifies every byte of a store, and maps it into memory."""
    verify_directory(directory)
    try:
        description = json.loads((directory / "store.json").read_bytes())
        if description["format"] != _FORMAT:
            raise UntoldError(f"{directory}: store format {description['format']}, not {_FORMAT}")
        dtype = np.dtype(description["dtype"])
        return Store(
            directory,
            _digest(description["fingerprint"]),
            FilterReport(**description["report"]),
            tuple((first, name) for first, name in description["files"]),
            (_map_side(directory / "source", dtype), _map_side(directory / "target", dtype)),
            _map(directory / "lines"),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UntoldError(f"{directory}: not a store: {shorten(repr(error))}") from error


class _Writer:
    """Appends pairs to the files of a store, and counts those that it keeps and drops."""

    def __init__(self, directory: Path, size: int) -> None:
        self.dtype = np.dtype("<u2" if size <= 1 << 16 else "<u4")
        self.kept, self.dropped = 0, Counter[str]()
        self.files: list[tuple[int, str]] = []
        self._directory = directory
        self._size = size
        self._ends = [0, 0]
        for side in _SIDES:
            self._append(f"{side}.offsets", np.zeros(1, _OFFSET))

    def add(
        self, pairs: Sequence[Pair], ids: Sequence[tuple[list[int], list[int]]], limits: Limits
    ) -> None:
        """Writes the pairs that are within the limits and counts the others.

        A side of blanks alone counts as empty, even if the tokenizer gives ids for spaces.
        """
        kept: list[Pair] = []
        rows: tuple[list[list[int]], list[list[int]]] = ([], [])
        for pair, encoded in zip(pairs, ids, strict=True):
            source = encoded[0] if pair.source.strip() else []
            target = encoded[1] if pair.target.strip() else []
            reason = reason_to_drop(len(source), len(target), limits)
            if reason is None and has_too_many_words((pair.source, pair.target), limits):
                reason = "too long"
            if reason is not None:
                self.dropped[reason] += 1
                continue
            if not self.files or self.files[-1][1] != pair.file:
                self.files.append((self.kept + len(kept), pair.file))
            kept.append(pair)
            rows[0].append(source)
            rows[1].append(target)
        for side in range(len(_SIDES)):
            self._write_side(side, rows[side])
        self._append("lines", np.array([pair.line for pair in kept], _OFFSET))
        self.kept += len(kept)

    def _write_side(self, side: int, rows: list[list[int]]) -> None:
        lengths = np.fromiter((len(row) for row in rows), _OFFSET, count=len(rows))
        ids = np.fromiter(itertools.chain.from_iterable(rows), _OFFSET, count=int(lengths.sum()))
        if ids.size and not 0 <= ids.min() <= ids.max() < self._size:
            raise UntoldError(
                f"the {_SIDES[side]} tokenizer gave ids {ids.min()} to {ids.max()}, "
                f"outside its vocabulary of {self._size}"
            )
        self._append(f"{_SIDES[side]}.ids", ids.astype(self.dtype))
        self._append(f"{_SIDES[side]}.offsets", self._ends[side] + np.cumsum(lengths))
        self._ends[side] += len(ids)

    def _append(self, name: str, values: np.ndarray) -> None:
        with open(self._directory / name, "ab") as file:
            file.write(values.tobytes())


def _map_side(stem: Path, dtype: np.dtype) -> Sentences:
    return Sentences(_map(stem.with_suffix(".ids"), dtype), _map(stem.with_suffix(".offsets")))


def _map(path: Path, dtype: np.dtype = _OFFSET) -> np.ndarray:
    return np.asarray(np.memmap(path, dtype, mode="r"))


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(pairs)
    while chunk := list(itertools.islice(pairs, _CHUNK_PAIRS)):
        yield chunk


def _describe(text: CorpusText, encoder: PairEncoder, limits: Limits) -> dict[str, Any]:
    limited: dict[str, Any] = dict(asdict(limits))
    if limits.max_words is None:
        del limited["max_words"]  # stores of versions that had no such limit stay valid
    return {
        "corpora": text.fingerprints(),
        "tokenizer": encoder.fingerprint,
        "vocabulary": encoder.size,
        "lowercase": encoder.lowercase,
        "limits": limited,
    }


def _digest(fingerprint: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()
