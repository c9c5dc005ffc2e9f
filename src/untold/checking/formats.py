"""Reads the segments of a file in any format that a check knows, in the order of the file."""

from collections.abc import Callable, Iterator
from pathlib import Path

from untold.checking.po import read_po_segments
from untold.checking.segments import (
    Damage,
    ReadOptions,
    Segment,
    read_jsonl_segments,
    read_parallel_segments,
    read_tsv_segments,
)
from untold.checking.xml_formats import read_tmx_segments, read_xliff_segments
from untold.errors import UntoldError

_READERS: dict[str, Callable[[Path, ReadOptions], Iterator[Segment | Damage]]] = {
    ".tsv": read_tsv_segments,
    ".jsonl": read_jsonl_segments,
    ".po": read_po_segments,
    ".pot": read_po_segments,
    ".tmx": read_tmx_segments,
    ".xlf": read_xliff_segments,
    ".xliff": read_xliff_segments,
}


def read_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads a file with the format that its suffix names; .gz may follow that suffix."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _READERS:
        *known, last = _READERS
        raise UntoldError(
            f"{path}: a file of translations is {', '.join(known)} or {last}, and .gz may follow; "
            "plain text takes two files, source and target"
        )
    return _READERS[suffixes[-1]](path, options)


def read_two_files(source: Path, target: Path) -> Iterator[Segment | Damage]:
    """Reads two text files whose lines translate each other."""
    return read_parallel_segments(source, target)
