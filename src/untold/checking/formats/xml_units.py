"""Streams the units of TMX and XLIFF files, and goes on behind damage.

lxml's own recovery is not used: it drops characters and swallows units without a word. The parser
here is strict. After a mistake a new one begins where the unit ends or the next one begins, inside
the elements that were open. Entities are never expanded and nothing outside the file is read.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from untold.checking.formats.segment_rules import needs_files
from untold.checking.formats.xml_text import UNDECODABLE, Piece, read_pieces
from untold.checking.segment import Damage
from untold.errors import one_line

__all__ = ["OpenElement", "XmlKind", "XmlUnit", "read_units"]

_LINES_A_PARSER = 30_000  # libxml2 keeps the line of an element in 16 bits
_MOST_PENDING = 1 << 24  # characters that are kept to go on from; libxml2 gives up before
_MOST_READ_AGAIN = 100_000  # pieces; a file of nothing but mistakes must not take for ever
# libxml2 looks for the semicolon behind a bare & in all that follows, and lxml ends a document at
# an unknown entity without a word. With a semicolon at once both are mistakes where they stand.
_BAD_REFERENCE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)")
_REASONS = {  # words of libxml2, and ours
    "no name": 'an "&" that begins no known entity: write &amp;, or the text of the entity',
    f"{ord(UNDECODABLE)}": "bytes that do not fit the encoding: convert the file (iconv -t utf-8)",
    f"0x{ord(UNDECODABLE):X}": "bytes that do not fit the encoding: convert the file to UTF-8",
    "no element found": "holds no XML document: check the file",
    "Document is empty": "holds no XML document: check the file",
}
_XML = "http://www.w3.org/XML/1998/namespace"
_PLACE = re.compile(r",? line \d+(?:, column \d+)?")


@dataclass(frozen=True)
class XmlKind:
    """Names the elements of a format."""

    root: str
    units: frozenset[str]
    header: str  # stands before the units, and its attributes concern them
    division: str = ""  # holds units, and its attributes concern them


@dataclass(frozen=True)
class OpenElement:
    """An element around a unit."""

    name: str  # without its namespace
    attributes: Mapping[str, str]
    start_tag: str  # as it may be written again


@dataclass(frozen=True)
class XmlUnit:
    """A whole unit; it is emptied when the next one is asked for."""

    element: Any
    first_line: int  # of the file, where the parser began
    around: tuple[OpenElement, ...]  # from the root inwards
    header: Mapping[str, str]

    def line(self, element: Any) -> int:
        """Returns the line of the file on which the start tag of an element ends."""
        return self.first_line + (element.sourceline or 1) - 1


class _Unclosed(Exception):
    """Says that a unit began within another one."""


class _Ended(Exception):
    """Says that the parser has ended the document without a word."""


def read_units(path: Path, kind: XmlKind) -> Iterator[XmlUnit | Damage]:
    """Yields every unit that is well-formed, and a damage for each place that is not."""
    try:
        from lxml import etree
    except ImportError:
        raise needs_files(path, "lxml") from None
    stream = _UnitStream(etree, str(path), kind)
    damaged = fed = False
    for piece in read_pieces(path, sorted(kind.units), kind.division):
        if isinstance(piece, Damage):
            damaged = True
            yield piece
        else:
            fed = True
            yield from stream.feed(piece)
    if fed or not damaged:
        yield from stream.close()


class _UnitStream:
    """A strict parser, and what is needed to begin a new one: open elements and pending text."""

    def __init__(self, etree: Any, file: str, kind: XmlKind) -> None:
        self._etree, self._file, self._kind = etree, file, kind
        self._open: list[OpenElement] = []
        self._space = ""  # the namespace of the root
        self._header: Mapping[str, str] = {}
        self._unit: Any = None  # the unit that is open
        self._pending: list[Piece] = []  # begun units that the parser has not reported yet
        self._pending_size = 0  # characters
        self._read_again = 0  # pieces
        self._has_doctype = self._finished = self._skips = False
        self._last_line = 1
        self._begin(1)

    def feed(self, piece: Piece) -> Iterator[XmlUnit | Damage]:
        pieces = deque([piece])
        while pieces and not self._finished:
            piece = pieces.popleft()
            if self._skips and not (piece.begins or piece.follows):
                continue
            if self._skips or (piece.begins and self._is_worn(piece.line)):
                self._begin_again(piece)
            self._keep(piece)
            self._last_line = piece.line + piece.text.count("\n")
            try:
                yield from self._events(self._readable(piece))
            except (self._etree.XMLSyntaxError, _Ended) as error:
                yield self._damage(error)
                pieces.extendleft(reversed(self._give_up()))
            except _Unclosed as error:
                yield Damage(self._file, *error.args)
                begins = [n for n, each in enumerate(self._pending) if each.begins]
                rest = self._pending[begins[-1] if begins else 0 :]
                self._give_up()
                pieces.extendleft(reversed(rest))

    def close(self) -> Iterator[XmlUnit | Damage]:
        """Ends the document, which must be whole."""
        while not self._finished and not self._skips:
            try:
                self._parser.close()
                return
            except self._etree.XMLSyntaxError as error:
                yield self._damage(error)
                for piece in self._give_up():
                    yield from self.feed(piece)

    def _readable(self, piece: Piece) -> str:
        """Returns the text of a piece, in which a bad reference cannot hide."""
        if not piece.begins or "<!" in piece.text or self._unit is not None:
            return piece.text  # in comments and CDATA an & is just that
        return _BAD_REFERENCE.sub("&;", piece.text)

    def _begin(self, line: int) -> None:
        self._parser = self._etree.XMLPullParser(
            events=("start", "end"),
            encoding="utf-8",  # of what is fed here, whatever the file declares
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            dtd_validation=False,
            huge_tree=False,
            recover=False,
            remove_comments=True,
            remove_pis=True,
        )
        self._first_line, self._unit, self._skips = line, None, False
        self._known = 0  # start tags that were fed to begin within open elements
        self._has_root = False

    def _is_worn(self, line: int) -> bool:
        """Returns True if a new parser is due: entities are declared, or lines become too many."""
        worn = self._has_doctype or line - self._first_line > _LINES_A_PARSER
        return worn and self._unit is None and not self._pending and bool(self._open)

    def _begin_again(self, piece: Piece) -> None:
        """Begins a new parser at a piece, within the elements that are open there."""
        if piece.begins == self._kind.division:
            names = [element.name for element in self._open]
            self._open = self._open[: names.index(piece.begins) if piece.begins in names else None]
        self._begin(piece.line)
        self._has_doctype = False
        self._known = len(self._open)
        self._parser.feed("".join(each.start_tag for each in self._open).encode())

    def _give_up(self) -> list[Piece]:
        """Leaves the parser, and returns what a new one has to read, from the next unit on.

        It cannot begin if the elements around are not known.
        """
        # If no unit is open, the first of the pending is the one whose start tag is broken.
        rest = self._pending[0 if self._unit is not None else 1 :]
        self._forget_pending()
        self._skips, self._finished = True, not self._open
        self._read_again += len(rest)
        return rest if self._read_again <= _MOST_READ_AGAIN else []

    def _keep(self, piece: Piece) -> None:
        if piece.begins or self._pending:
            self._pending.append(piece)
            self._pending_size += len(piece.text)
            if self._pending_size > _MOST_PENDING:
                self._forget_pending()

    def _forget_pending(self) -> None:
        self._pending, self._pending_size = [], 0

    def _events(self, text: str) -> Iterator[XmlUnit | Damage]:
        problem = None
        try:
            self._parser.feed(text.encode(errors="surrogatepass"))
        except self._etree.XMLSyntaxError as error:
            problem = error  # what ended before the mistake comes out first
        for event, element in self._parser.read_events():
            if self._finished:
                return
            if event == "start":
                yield from self._start(element)
            else:
                yield from self._end(element)
        if problem is not None:
            raise problem

    def _start(self, element: Any) -> Iterator[Damage]:
        if element.getparent() is None:
            if self._has_root:
                raise _Ended
            self._has_root = True
        if self._known:
            self._known -= 1
            return
        name = self._name(element)
        if self._unit is not None:
            if name in self._kind.units or name == self._kind.division:
                raise _Unclosed(self._line(self._unit), "the unit is not closed: close its tag")
            return
        if not self._open and name != self._kind.root:
            self._finished = True
            wrong = one_line(f"the document is <{name}> and not <{self._kind.root}>", 100)
            yield Damage(self._file, self._line(element), f"{wrong}: check the file")
        elif name in self._kind.units:
            self._unit = element
            self._forget_pending()
        else:
            self._enter(element, name)

    def _enter(self, element: Any, name: str) -> None:
        if name == self._kind.division:
            if any(each.name == name for each in self._open):
                reason = f"<{name}> begins within another <{name}>: close that one's tag"
                raise _Unclosed(self._line(element), reason)
            self._forget_pending()
        if name == self._kind.header:
            self._header = dict(element.attrib)
        if not self._open:
            self._space = element.tag.rpartition("}")[0]
            self._has_doctype = bool(element.getroottree().docinfo.doctype)
        self._open.append(OpenElement(name, dict(element.attrib), _start_tag(element)))

    def _end(self, element: Any) -> Iterator[XmlUnit]:
        if self._unit is None:
            self._open.pop()
            self._empty(element)
        elif element is self._unit:
            yield XmlUnit(element, self._first_line, tuple(self._open), self._header)
            self._unit = None
            self._empty(element)

    def _empty(self, element: Any) -> None:
        """Frees what was read: memory must not grow with the file."""
        element.clear()
        parent = element.getparent()
        while element.getprevious() is not None:
            del parent[0]

    def _name(self, element: Any) -> str:
        """Returns the name without the namespace of the document; other names are left whole."""
        space, _, name = element.tag.rpartition("}")
        return name if space == self._space or not self._open else element.tag

    def _line(self, element: Any) -> int:
        return self._first_line + (element.sourceline or 1) - 1

    def _damage(self, error: Any) -> Damage:
        if isinstance(error, _Ended):
            line = self._last_line if self._unit is None else self._line(self._unit)
            return Damage(self._file, line, _REASONS["no name"])
        line = self._first_line + error.lineno - 1 if error.lineno else self._last_line
        message = _PLACE.sub("", error.msg.strip())
        known = [ours for theirs, ours in _REASONS.items() if theirs in message]
        return Damage(
            self._file, line, one_line((*known, f"not well-formed XML ({message}): mend it")[0])
        )


def _start_tag(element: Any) -> str:
    """Writes a start tag on one line; lxml would refuse odd namespaces that it has read."""
    written = [_qualified(element.tag, {element.nsmap.get(element.prefix): element.prefix})]
    for prefix, space in element.nsmap.items():
        written.append(f"{f'xmlns:{prefix}' if prefix else 'xmlns'}={quoteattr(space)}")
    prefixes = {space: prefix for prefix, space in element.nsmap.items() if prefix}
    for name, value in element.attrib.items():
        written.append(f"{_qualified(name, {**prefixes, _XML: 'xml'})}={quoteattr(value)}")
    return f"<{' '.join(written)}>"


def _qualified(name: str, prefixes: Mapping[str | None, str | None]) -> str:
    space, _, local = name.removeprefix("{").rpartition("}")
    prefix = prefixes.get(space) if space else None
    return f"{prefix}:{local}" if prefix else local
