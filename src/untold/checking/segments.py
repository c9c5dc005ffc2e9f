"""What a checker reads: a translation in a file, or a place where the file is damaged.

What holds in every format stands here: the options of reading, which segments no model judges, what
a comment switches off, and lines of bytes with their numbers.
"""

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from typing import Literal

from untold.checking.markup import has_branches, plain_pair, plain_text
from untold.corpus.text import open_bytes
from untold.errors import UntoldError

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
    """A place that could not be read: a row of a table, or where a catalogue ends."""

    file: str
    line: int
    reason: str  # one line, with the cure


class Damaged(Exception):
    """Ends the reading of a file: the line of the damage, and its reason."""


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
        if note := _IGNORE.fullmatch(line.strip()):
            kinds |= _KINDS[(note[1] or "").lower()]
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
