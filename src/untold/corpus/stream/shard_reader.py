"""Reads one file, two parallel files or one dataset of a stream, and describes them."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from untold.config import CorpusConfig
from untold.corpus.corpora import Pair, read_dataset, read_pairs

_EDGE_BYTES = 1 << 16  # of each end of a file: enough to notice that it was replaced
_ROWS_KNOWN = 100  # rows of a hub's dataset by which it is known


def read_shard(shard: CorpusConfig, root: Path) -> Iterator[Pair]:
    """Yields every pair of a shard in order; a dataset of a hub is not stored here."""
    if shard.dataset is None:
        return read_pairs(shard, root)
    directory = root / shard.dataset
    return read_dataset(shard.dataset, shard.split, shard.columns, directory, streaming=True)


def describe_shard(shard: CorpusConfig, root: Path) -> list[str]:
    """Describes a shard without reading all of it: the names, sizes and ends of its files."""
    names = [name for name in (shard.source, shard.target, shard.path) if name is not None]
    files = [root / name for name in names]
    if shard.dataset is not None:
        directory = root / shard.dataset
        if not directory.is_dir():
            rows = itertools.islice(read_shard(shard, root), _ROWS_KNOWN)
            return [shard.dataset, shard.split, *(f"{row.source}\t{row.target}" for row in rows)]
        files = sorted(path for path in directory.rglob("*") if path.is_file())
    return [repr(shard.columns), shard.split, *(_describe_file(file) for file in files)]


def _describe_file(path: Path) -> str:
    size = path.stat().st_size
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_EDGE_BYTES))
        file.seek(max(0, size - _EDGE_BYTES), os.SEEK_SET)
        digest.update(file.read(_EDGE_BYTES))
    return f"{path.name} {size} {digest.hexdigest()}"
