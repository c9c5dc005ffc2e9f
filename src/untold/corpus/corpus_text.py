"""Reads the text of a corpus once; later passes come from a temporary copy on disk.

Learning a vocabulary and encoding the corpus each need all of its text. Reading it again would
unpack, parse and, for a dataset of a hub, fetch it again, and it might have changed meanwhile.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from untold.config import CorpusConfig
from untold.corpus.readers import Pair, fingerprint_corpus, read_pairs
from untold.corpus.stream.shard_files import expand_corpus
from untold.durable import writing
from untold.feedback import track

__all__ = ["CorpusText"]


class CorpusText:
    """Gives the pairs of corpora again and again, but reads the corpora only for the first time."""

    def __init__(self, corpora: Sequence[CorpusConfig], root: Path, directory: Path) -> None:
        """`directory` is where the temporary copy is put; the copy has no name and cannot stay."""
        self.corpora = tuple(file for each in corpora for file in expand_corpus(each, root))
        self.root = root
        self._directory = directory
        self._copy: IO[str] | None = None
        self._count = 0
        self._closing = ExitStack()

    def pairs(self) -> Iterator[Pair]:
        """Yields every pair in order, blank ones too. One pass must end before the next begins."""
        copy = self._whole_copy()
        copy.seek(0)
        while line := copy.readline():
            source, target, number, file = json.loads(line)
            yield Pair(source, target, number, file)

    def count(self) -> int:
        """Returns the number of pairs."""
        self._whole_copy()
        return self._count

    def fingerprints(self) -> list[str]:
        """Returns a hash of each corpus as it is on disk now."""
        return [fingerprint_corpus(corpus, self.root) for corpus in self.corpora]

    def __enter__(self) -> "CorpusText":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # of a full disk, which was told before; the copy is not needed now
            self._closing.close()
        self._copy = None

    def _whole_copy(self) -> IO[str]:
        if self._copy is None:
            self._copy = self._read()
        return self._copy

    def _read(self) -> IO[str]:
        with writing(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            return self._copy_pairs()

    def _copy_pairs(self) -> IO[str]:
        file = tempfile.TemporaryFile(  # noqa: SIM115 (__exit__ closes it)
            "w+", encoding="utf-8", newline="\n", dir=self._directory
        )
        copy = self._closing.enter_context(file)
        for pair in track(self._read_pairs(), "reading the corpus"):
            row = [pair.source, pair.target, pair.line, pair.file]
            copy.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._count += 1
        copy.flush()  # here, where a full disk is told with its place
        return copy

    def _read_pairs(self) -> Iterator[Pair]:
        for corpus in self.corpora:
            yield from read_pairs(corpus, self.root)
