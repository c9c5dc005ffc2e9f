"""Reads the segments of a file in the format that its suffix names; tables are read here.

A bad row of a table is one damage, and the next row is read; a catalogue ends at its first damage.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from untold.checking.po import read_po
from untold.checking.segments import (
    Damage,
    ReadOptions,
    Segment,
    decode_line,
    finish_segment,
    ignored_kinds,
    read_raw_lines,
)
from untold.checking.xml_formats import read_tmx, read_xliff
from untold.corpus.corpora import pairs_from_rows
from untold.corpus.text import count_lines
from untold.errors import UntoldError, one_line

_IGNORE_COLUMN = "untold"
_NAMES = ("source", "target")


def _read_tsv(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads fields between tabs, as a corpus does; there is no quoting.

    The first line is a header if the columns are given by name, or if it names `source` and
    `target`. A header may also name a column `untold`, which says what is ignored.
    """
    positions: tuple[int, int, int | None] | None = None
    width = 0
    for row in _texts(path):
        if isinstance(row, Damage):
            yield row
            continue
        line, fields = row[0], row[1].split("\t")
        if positions is None:
            positions, is_header = _positions(fields, options.columns, str(path))
            if is_header:
                width = len(fields)
                continue
        needed = max(positions[:2]) + 1
        width = width or (len(fields) if len(fields) >= needed else 0)
        if len(fields) != (width or needed):
            wanted = f"{len(fields)} fields, not {width or needed} parted by tabs"
            yield Damage(str(path), line, f"{wanted}: mend the line")
            continue
        note = "" if positions[2] is None else fields[positions[2]]
        yield _segment((str(path), line), fields[positions[0]], fields[positions[1]], note)


def _read_jsonl(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads one JSON object a line; its key `untold` says what is ignored."""
    read_any = False
    for row in _texts(path):
        if isinstance(row, Damage):
            yield row
            continue
        try:
            cells = _json_object(row[1])
        except ValueError as error:
            yield Damage(str(path), row[0], one_line(str(error)))
            continue
        try:
            (pair,) = pairs_from_rows([cells], str(path), options.columns)
        except UntoldError as error:
            reason = str(error).removeprefix(f"{path}:1: ")
            if not read_any and reason.startswith("no column"):
                raise UntoldError(f"{path}:{row[0]}: {reason}") from None
            yield Damage(str(path), row[0], one_line(f"{reason}: mend the line"))
            continue
        read_any = True
        note = cells.get(_IGNORE_COLUMN)
        place = str(path), row[0]
        yield _segment(place, pair.source, pair.target, note if isinstance(note, str) else "")


def read_two_files(source: Path, target: Path) -> Iterator[Segment | Damage]:
    """Reads two text files whose lines translate each other; a segment stands in the target."""
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        raise UntoldError(
            f"{source} has {counts[0]} lines and {target} has {counts[1]}: "
            "line by line they must translate each other"
        )
    # The counts are equal, and strict=True would only add an exception of another type.
    for left, right in zip(_texts(source), _texts(target), strict=False):
        if isinstance(left, Damage) or isinstance(right, Damage):
            yield from (side for side in (left, right) if isinstance(side, Damage))
        else:
            yield _segment((str(target), right[0]), left[1], right[1], "")


def _segment(place: tuple[str, int], source: str, target: str, note: str) -> Segment:
    ignored = ignored_kinds(f"untold: {note}")
    return finish_segment(Segment(*place, source, target, ignored=ignored), gui=False)


def _texts(path: Path) -> Iterator[tuple[int, str] | Damage]:
    for line in read_raw_lines(path):
        if isinstance(line, Damage):
            yield line
        else:
            text = decode_line(line[1], line, str(path))
            yield text if isinstance(text, Damage) else (line[0], text)


def _positions(
    first: list[str], columns: tuple[str, str] | None, name: str
) -> tuple[tuple[int, int, int | None], bool]:
    """Finds source, target and the column of ignore notes; True if the line is a header."""
    if columns is None and not all(title in first for title in _NAMES):
        return (0, 1, None), False
    if columns and all(re.fullmatch("[0-9]{1,9}", name) and int(name) for name in columns):
        return (int(columns[0]) - 1, int(columns[1]) - 1, None), False
    wanted = columns or _NAMES
    missing = [title for title in wanted if title not in first]
    if missing:
        there = ", ".join(repr(title) for title in first)
        lacks = ", ".join(repr(title) for title in missing)
        raise UntoldError(one_line(f"{name}: no column {lacks}; set columns to two of: {there}"))
    note = first.index(_IGNORE_COLUMN) if _IGNORE_COLUMN in first else None
    return (first.index(wanted[0]), first.index(wanted[1]), note), True


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}: mend the line") from None
    if not isinstance(row, dict):
        raise ValueError(f"{text!r:.40} is not a JSON object: mend the line")
    return row


_READERS: dict[str, Callable[[Path, ReadOptions], Iterator[Segment | Damage]]] = {
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".po": read_po,
    ".pot": read_po,
    ".tmx": read_tmx,
    ".xlf": read_xliff,
    ".xliff": read_xliff,
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
