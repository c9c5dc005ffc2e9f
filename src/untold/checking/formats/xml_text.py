"""Decodes an XML file as its first bytes say, and cuts it where units begin."""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from untold.checking.formats.raw_lines import read_chunks
from untold.checking.segment import Damage
from untold.corpus.lines import open_bytes
from untold.errors import one_line

__all__ = ["UNDECODABLE", "Piece", "read_pieces"]

# What cannot be decoded becomes a character that XML forbids: the parser then refuses the unit that
# holds it, and no text is invented.
UNDECODABLE = "\uffff"
_HANDLER = "untold.undecodable"
_CHUNK = 1 << 16  # bytes
_BEHIND = "/"  # where a unit ends
_LONGEST_NAME = 100  # characters of a tag that a chunk may cut
_BOMS = {  # UTF-32 comes first: the mark of UTF-16 begins it
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    b"<\0?\0": "utf-16-le",
    b"\0<\0?": "utf-16-be",
}
_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.:-]{1,40})[\"']")

codecs.register_error(_HANDLER, lambda error: (UNDECODABLE, getattr(error, "end", 0)))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text of a file."""

    text: str
    line: int  # from 1: where it begins
    begins: str = ""  # the name of the unit or division that begins here
    follows: bool = False  # True right behind the end of a unit


def read_pieces(path: Path, units: Iterable[str], division: str) -> Iterator[Piece | Damage]:
    """Yields the text of a file, cut before each unit and division and behind each unit."""
    ends, begins = "|".join(units), "|".join([*units, division] if division else units)
    prefix = r"(?:[\w.-]{1,50}:)?"
    tag = re.compile(rf"<(?:/{prefix}(?:{ends})\s*>|{prefix}(?P<begins>{begins})(?=[\s/>]))")
    rest, line = "", 1
    for chunk in _texts(path):
        if isinstance(chunk, Damage):
            yield chunk
            continue
        rest += chunk
        # The chunk may end within a tag, which must not be missed.
        cut = rest.rfind("<", max(0, len(rest) - _LONGEST_NAME))
        head, rest = (rest, "") if cut < 0 else (rest[:cut], rest[cut:])
        yield from _cut(head, line, tag)
        line += head.count("\n")
    yield from _cut(rest, line, tag)


def _cut(text: str, line: int, tag: re.Pattern[str]) -> Iterator[Piece]:
    places = {0: "", len(text): ""}
    for found in tag.finditer(text):
        place = found.end() if found["begins"] is None else found.start()
        places[place] = found["begins"] or _BEHIND
    for start, stop in pairwise(sorted(places)):
        name = places[start]
        behind = name == _BEHIND
        yield Piece(text[start:stop], line, "" if behind else name, behind)
        line += text.count("\n", start, stop)


def _texts(path: Path) -> Iterator[str | Damage]:
    decoder = None
    with open_bytes(path) as file:
        for chunk in read_chunks(file, path, _CHUNK):
            if isinstance(chunk, Damage):
                yield chunk
                return
            try:
                decoder = decoder or _decoder(_encoding(chunk))
                yield decoder.decode(chunk)
            except (LookupError, UnicodeError) as error:
                named = f"the encoding that the XML declaration names does not work ({error})"
                yield Damage(str(path), 1, one_line(f"{named}: convert the file to UTF-8"))
                return
        if decoder is not None:
            yield decoder.decode(b"", True)


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    b"a a ".decode(encoding, "replace")  # refuses codecs that do not give text
    return codecs.getincrementaldecoder(encoding)(_HANDLER)


def _encoding(start: bytes) -> str:
    for mark, encoding in _BOMS.items():
        if start.startswith(mark):
            return encoding
    found = _DECLARED.match(start)
    declared = found[1].decode("ascii", "replace") if found else "utf-8"
    # Whoever can read the declaration byte by byte does not read UTF-16, whatever it says.
    return "utf-8" if declared.lower().startswith(("utf-16", "utf-32", "ucs")) else declared
