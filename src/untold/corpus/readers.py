"""Reads the sentence pairs of a corpus in any format, and fingerprints the corpus."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from untold.config import CorpusConfig
from untold.corpus.lines import count_lines, open_bytes, read_lines, split_lines
from untold.corpus.tables import Pair, read_dataset, read_table
from untold.durable import hash_file
from untold.errors import UntoldError
from untold.failures import reason_and_cure

__all__ = ["Pair", "fingerprint_corpus", "read_lines", "read_pairs", "split_lines"]


def read_pairs(corpus: CorpusConfig, root: Path) -> Iterator[Pair]:
    """Yields every pair of a corpus in order, also blank ones; paths are relative to `root`.

    Before the first pair comes out, the function has read .gz files to their end and has checked
    that parallel files have equal numbers of lines.
    """
    if corpus.source is not None and corpus.target is not None:
        source, target = root / corpus.source, root / corpus.target
        yield from _read_parallel_files(_require_file(source), _require_file(target))
    elif corpus.path is not None:
        yield from read_table(_require_file(root / corpus.path), corpus.columns)
    else:
        yield from _read_dataset(corpus, root)


def fingerprint_corpus(corpus: CorpusConfig, root: Path) -> str:
    """Returns a hash of the corpus's bytes and of how they are read.

    The hash does not depend on the place of the files.
    """
    if corpus.source is not None and corpus.target is not None:
        contents = [_hash(root / name) for name in (corpus.source, corpus.target)]
    elif corpus.path is not None:
        contents = [Path(corpus.path).suffixes[-2:], _hash(root / corpus.path)]
    else:
        contents = _fingerprint_dataset(corpus, root)
    described = json.dumps([contents, corpus.columns, corpus.split])
    return hashlib.sha256(described.encode()).hexdigest()


def _require_file(path: Path) -> Path:
    """Returns the path, or fails if it is no regular file: a pipe cannot be read twice."""
    if not path.is_file():
        raise UntoldError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    return path


def _hash(path: Path) -> str:
    try:
        return hash_file(_require_file(path))
    except OSError as error:
        raise UntoldError(f"{path}: {reason_and_cure(error)}") from None


def _read_parallel_files(source: Path, target: Path) -> Iterator[Pair]:
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        raise UntoldError(
            f"{source} has {counts[0]} lines and {target} has {counts[1]}: "
            f"line by line they must translate each other"
        )
    name = str(source)
    with open_bytes(source) as source_file, open_bytes(target) as target_file:
        sources, targets = split_lines(source_file, name), split_lines(target_file, str(target))
        # The counts are equal, and strict=True would only add an exception of another type.
        for line, (one, other) in enumerate(zip(sources, targets, strict=False), start=1):
            yield Pair(one, other, line, name)


def _read_dataset(corpus: CorpusConfig, root: Path) -> Iterator[Pair]:
    name = str(corpus.dataset)
    return read_dataset(name, corpus.split, corpus.columns, root / name)


def _fingerprint_dataset(corpus: CorpusConfig, root: Path) -> list[str]:
    directory = root / str(corpus.dataset)
    if directory.is_dir():
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return [f"{path.relative_to(directory)} {_hash(path)}" for path in files]
    # The name of a dataset does not change with its version, so the text itself is hashed.
    digest = hashlib.sha256()
    for pair in _read_dataset(corpus, root):
        digest.update(json.dumps([pair.source, pair.target]).encode())
    return [digest.hexdigest()]
