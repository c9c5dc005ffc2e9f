"""The unit that a checker reads: a translation in a file, or a place where a file is damaged.

Rules that hold in every format: options of reading, what is not checked, what is ignored.

Reads lines of bytes with their numbers; damage within a file does not end the reading.

Reads segments from TSV, JSONL and two parallel text files; a bad row is a damage.
"""

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Literal

from untold.checking.markup import has_branches, plain_pair, plain_text
from untold.corpus.corpora import pairs_from_rows
from untold.corpus.text import count_lines, open_bytes
from untold.errors import UntoldError, one_line

FindingKind = Literal["omission", "addition"]


@dataclass(frozen=True, slots=True)
class Segment:
    """One translation: both sides as plain text without markup, and where it stands."""

    file: str
    line: int  # from 1: where the translation begins
    source: str
    target: str
    name: str = ""  # what the file calls the unit, such as the id of a trans-unit
    ignored: frozenset[FindingKind] = frozenset()  # kinds that a comment in the file switches off
    unchecked: str = ""  # why a model must not judge it: "empty", "untranslated", "fuzzy", ...


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that could not be read; whatever follows it is still checked if possible."""

    file: str
    line: int
    reason: str  # one line, with the cure


_IGNORE = re.compile(r"untold:\s*ignore(?:\s+(omission|addition))?", re.IGNORECASE)
_KINDS: dict[str, frozenset[FindingKind]] = {
    "": frozenset({"omission", "addition"}),
    "omission": frozenset({"omission"}),
    "addition": frozenset({"addition"}),
}
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class ReadOptions:
    """Says how files are read; each format uses what concerns it."""

    columns: tuple[str, str] | None = None  # of TSV and JSONL: names, or numbers from 1 in TSV
    source_language: str | None = None  # of TMX and XLIFF, such as "en"; "en" means en-GB, too
    target_language: str | None = None


def finish_segment(raw: Segment, *, gui: bool) -> Segment:
    """Removes markup from both sides and decides whether a model may judge them.

    `gui` means strings of a program, which may hold keyboard accelerators and %1.
    """
    if gui:
        source, target = plain_pair(raw.source, raw.target)
    else:
        source, target = plain_text(raw.source), plain_text(raw.target)
    return replace(raw, source=source, target=target, unchecked=_reason(raw, source, target))


def ignored_kinds(comment: str) -> frozenset[FindingKind]:
    """Reads `untold: ignore`, alone or with the kind that it switches off, on lines of its own."""
    kinds: frozenset[FindingKind] = frozenset()
    for line in comment.split("\n"):
        if found := _IGNORE.fullmatch(line.strip()):
            kinds |= _KINDS[(found[1] or "").lower()]
    return kinds


def language_rank(wanted: str, language: str) -> int | None:
    """Ranks how well a language tag fits the wanted one: 0 is the same, None does not fit."""
    one, other = (tag.lower().replace("_", "-") for tag in (wanted, language))
    if one == other:
        return 0
    if other.startswith(f"{one}-"):
        return 1
    return 2 if one.startswith(f"{other}-") else None


def needs_files(path: object, package: str) -> UntoldError:
    """Makes the error for a package that is not installed."""
    return UntoldError(f"{path}: reading it needs {package}: pip install 'untold[files]'")


def _reason(raw: Segment, source: str, target: str) -> str:
    """Says why the segment is not checked; "" means that it is."""
    if not source.strip():
        return "empty"
    if not raw.target.strip(" \t\r\n\0"):
        return "untranslated"
    if raw.unchecked:
        return raw.unchecked
    if not target.strip():
        return "empty"
    if source.split() == target.split():
        # A single word may well be the same in both languages, and numbers are.
        several = len(source.split()) > 1 and _LETTER.search(source)
        return "untranslated" if several else "identical"
    return "branches" if has_branches(raw.source) or has_branches(raw.target) else ""


RawLine = tuple[int, bytes]
_LONGEST_LINE = 16 << 20  # bytes; a binary file without line ends must not fill the memory
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def read_raw_lines(path: Path) -> Iterator[RawLine | Damage]:
    """Yields number and content of each line, without its end and without a byte order mark.

    A line that is too long and the end of a broken .gz file come out as damages.
    """
    with open_bytes(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(_LONGEST_LINE + 1)
                too_long = len(line) > _LONGEST_LINE and not line.endswith(b"\n")
                if too_long:
                    _skip_line(file)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                yield _broken(path, number, error)
                return
            if not line:
                return
            if too_long:
                limit = f"longer than {_LONGEST_LINE >> 20} MiB"
                yield Damage(str(path), number, f"the line is {limit}: break it, or leave it out")
            else:
                yield number, _content(line, path if number == 1 else None)


def read_chunks(file: BufferedIOBase, path: Path, size: int) -> Iterator[bytes | Damage]:
    """Yields the bytes of an open file in chunks; the end of a broken .gz file is a damage."""
    lines = 1
    while True:
        try:
            chunk = file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield _broken(path, lines, error)
            return
        if not chunk:
            return
        yield chunk
        lines += chunk.count(b"\n")


def decode_line(content: bytes, place: RawLine, file: str) -> str | Damage:
    """Decodes UTF-8, or says which byte is none; `place` is the line that the content is of."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        return Damage(
            file,
            place[0],
            f"byte 0x{content[error.start]:02x} at {error.start + 1} is not UTF-8: convert the "
            "text first (iconv -t utf-8)",
        )


def _content(line: bytes, first_of: Path | None) -> bytes:
    if first_of is not None:
        if line.startswith(_WIDE):
            raise UntoldError(f"{first_of}: is UTF-16 or UTF-32: convert it (iconv -t utf-8)")
        line = line.removeprefix(codecs.BOM_UTF8)
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _skip_line(file: BufferedIOBase) -> None:
    while (part := file.readline(_LONGEST_LINE)) and not part.endswith(b"\n"):
        pass


def _broken(path: Path, line: int, error: Exception) -> Damage:
    return Damage(str(path), line, f"not a whole .gz file ({error}): get it again")


_IGNORE_COLUMN = "untold"
_NAMES = ("source", "target")


def read_tsv_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
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


def read_jsonl_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
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


def read_parallel_segments(source: Path, target: Path) -> Iterator[Segment | Damage]:
    """Reads two text files whose lines translate each other; a segment stands in the target."""
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        raise UntoldError(
            f"{source} has {counts[0]} lines and {target} has {counts[1]}: "
            "line by line they must translate each other"
        )
    # The counts are equal, and strict=True would only add an exception of another type.
    for one, other in zip(_texts(source), _texts(target), strict=False):
        if isinstance(one, Damage) or isinstance(other, Damage):
            yield from (side for side in (one, other) if isinstance(side, Damage))
        else:
            yield _segment((str(target), other[0]), one[1], other[1], "")


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
    if columns and all(re.fullmatch("[0-9]{1,9}", each) and int(each) for each in columns):
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
