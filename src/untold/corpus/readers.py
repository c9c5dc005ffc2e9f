"""Sentence pairs from wherever a corpus is kept, and what tells one state of it from another."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from untold.config import CorpusConfig
from untold.corpus.lines import count_lines, open_bytes, read_lines, split_lines
from untold.corpus.tables import Pair, Table, read_dataset, read_table
from untold.durable import hash_file
from untold.errors import UntoldError

__all__ = ["Pair", "fingerprint_corpus", "read_lines", "read_pairs", "split_lines"]


def read_pairs(corpus: CorpusConfig, root: Path) -> Iterator[Pair]:
    """Every pair of a corpus in order, blank ones too; paths are relative to `root`.

    Before the first pair comes out, .gz files have been read to their end, and parallel files are
    known to have equal numbers of lines.
    """
    if corpus.source is not None and corpus.target is not None:
        yield from _read_parallel(_file(root / corpus.source), _file(root / corpus.target))
    elif corpus.path is not None:
        yield from read_table(_file(root / corpus.path), corpus.columns)
    else:
        yield from read_dataset(_table(corpus), root / str(corpus.dataset))


def fingerprint_corpus(corpus: CorpusConfig, root: Path) -> str:
    """Changes when a byte of the corpus does, or how it is read; not when it moves."""
    if corpus.source is not None and corpus.target is not None:
        contents = [_hash(root / name) for name in (corpus.source, corpus.target)]
    elif corpus.path is not None:
        contents = [Path(corpus.path).suffixes[-2:], _hash(root / corpus.path)]
    else:
        contents = _fingerprint_dataset(corpus, root / str(corpus.dataset))
    described = json.dumps([contents, corpus.columns, corpus.split])
    return hashlib.sha256(described.encode()).hexdigest()


def _table(corpus: CorpusConfig) -> Table:
    return Table(str(corpus.dataset), corpus.columns, corpus.split)


def _file(path: Path) -> Path:
    """The same path, of a file that can be read twice."""
    if not path.is_file():
        raise UntoldError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    return path


def _hash(path: Path) -> str:
    try:
        return hash_file(_file(path))
    except OSError as error:
        raise UntoldError(f"{path}: {error.strerror or error}") from None


def _read_parallel(source: Path, target: Path) -> Iterator[Pair]:
    lines = count_lines(source), count_lines(target)
    if lines[0] != lines[1]:
        raise UntoldError(
            f"{source} has {lines[0]} lines and {target} has {lines[1]}: "
            f"line by line they must translate each other"
        )
    name = str(source)
    with open_bytes(source) as sources, open_bytes(target) as targets:
        # Counted above: strict would only add an exception of another type.
        texts = zip(split_lines(sources, name), split_lines(targets, str(target)), strict=False)
        for line, (one, other) in enumerate(texts, start=1):
            yield Pair(one, other, line, name)


def _fingerprint_dataset(corpus: CorpusConfig, directory: Path) -> list[str]:
    if directory.is_dir():
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return [f"{path.relative_to(directory)} {_hash(path)}" for path in files]
    # A name says nothing about a version, so the text itself is hashed.
    digest = hashlib.sha256()
    for pair in read_dataset(_table(corpus), directory):
        digest.update(json.dumps([pair.source, pair.target]).encode())
    return [digest.hexdigest()]
