"""Reads segments from translation memories (TMX 1.4 and before).

Decodes an XML file as its first bytes say, and cuts it where units begin.

Streams the units of TMX and XLIFF files, and goes on behind damage.

lxml's own recovery is not used: it drops characters and swallows units without a word. The parser
here is strict. After a mistake a new one begins where the unit ends or the next one begins, inside
the elements that were open. Entities are never expanded and nothing outside the file is read.

Reads segments from XLIFF 1.2, 2.0 and 2.1.
"""

import codecs
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from untold.checking.markup import inline_text
from untold.checking.segments import (
    Damage,
    ReadOptions,
    Segment,
    finish_segment,
    ignored_kinds,
    language_rank,
    needs_files,
    read_chunks,
)
from untold.corpus.text import open_bytes
from untold.errors import UntoldError, one_line, shorten

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


_TMX = XmlKind(root="tmx", units=frozenset({"tu"}), header="header")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MOST_LANGUAGES = 50  # that are remembered to be named
_CHOOSE = "choose with --source-language and --target-language"


def read_tmx_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads each unit in two languages.

    By default the source is the `srclang` of the header, or else the language that comes first, and
    the target is the other language. If there are several others, one must be chosen.
    """
    languages = _Languages(str(path), options)
    for unit in read_units(path, _TMX):
        if isinstance(unit, Damage):
            yield unit
            continue
        variants = [_Variant.read(child) for child in unit.element if _named(child, "tuv")]
        source, target = languages.choose(variants, unit.header.get("srclang", "*all*"))
        if source is not None or target is not None:
            yield finish_segment(_raw(unit, source, target, str(path)), gui=False)
    languages.check()


@dataclass(frozen=True)
class _Variant:
    """A unit in one language."""

    element: Any
    language: str

    @classmethod
    def read(cls, element: Any) -> "_Variant":
        return cls(element, element.get(_LANGUAGE) or element.get("lang") or "")

    @property
    def text(self) -> str:
        return "".join(inline_text(child) for child in self.element if _named(child, "seg"))


@dataclass
class _Languages:
    """Chooses two variants of each unit, and remembers which languages there were."""

    file: str
    options: ReadOptions
    source: str | None = None
    seen: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)  # that could be the target
    found: set[str] = field(default_factory=set)  # sides that were there at least once

    def choose(
        self, variants: list[_Variant], declared: str
    ) -> tuple[_Variant | None, _Variant | None]:
        """Returns the variants of source and target; None if the unit has none."""
        if len(self.seen) < _MOST_LANGUAGES:
            self.seen.update(dict.fromkeys(each.language for each in variants))
        if self.source is None:
            chosen = self.options.source_language or declared
            first = variants[0].language if len(variants) > 1 else None
            self.source = chosen if chosen.lower() != "*all*" else first
        source = _best(variants, self.source) if self.source is not None else None
        if self.options.target_language is not None:
            target = _best(variants, self.options.target_language)
        else:
            target = None if source is None else self._other(variants, source)
        self.found |= {"source"} if source else set()
        self.found |= {"target"} if target else set()
        return source, target

    def check(self) -> None:
        """Refuses a language that never occurred."""
        if not self.seen:
            return
        there = ", ".join(shorten(language) for language in self.seen)
        if self.source is not None and "source" not in self.found:
            raise UntoldError(
                f"{self.file}: no text in the source language {shorten(self.source)}; there are "
                f"{there}: {_CHOOSE}"
            )
        if self.options.target_language is not None and "target" not in self.found:
            raise UntoldError(
                f"{self.file}: no text in the target language "
                f"{shorten(self.options.target_language)}; there are {there}: {_CHOOSE}"
            )

    def _other(self, variants: list[_Variant], source: _Variant) -> _Variant | None:
        others = [each for each in variants if each.language != source.language]
        self.others.update(dict.fromkeys(each.language for each in others))
        if len(self.others) > 1:
            there = ", ".join(shorten(language) for language in self.seen)
            raise UntoldError(f"{self.file}: several languages ({there}): {_CHOOSE}")
        return others[0] if others else None


def _best(variants: list[_Variant], wanted: str) -> _Variant | None:
    ranks = [language_rank(wanted, each.language) for each in variants]
    fitting = [pair for pair in zip(ranks, variants, strict=True) if pair[0] is not None]
    return min(fitting, key=lambda pair: pair[0] or 0)[1] if fitting else None


def _raw(unit: XmlUnit, source: _Variant | None, target: _Variant | None, file: str) -> Segment:
    within = [unit.element, *(each.element for each in (source, target) if each is not None)]
    notes = [inline_text(child) for each in within for child in each if _named(child, "note")]
    return Segment(
        file,
        unit.line(unit.element if target is None else target.element),
        "" if source is None else source.text,
        "" if target is None else target.text,
        shorten(unit.element.get("tuid", "")),
        ignored_kinds("\n".join(notes)),
    )


def _named(element: Any, name: str) -> bool:
    return isinstance(element.tag, str) and element.tag.rpartition("}")[2] == name


_XLIFF = XmlKind(root="xliff", units=frozenset({"trans-unit", "unit"}), header="", division="file")
_SOURCE = ("source-language", "srcLang")
_TARGET = ("target-language", "trgLang")
# States of a target that nobody has translated yet; a state that is absent says nothing.
_UNTRANSLATED = frozenset({"new", "needs-translation", "initial"})
_MOST_PAIRS = 50  # that are remembered to be named
_FUZZY = frozenset({"fuzzy-match"})


def read_xliff_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads each <trans-unit>, or each <segment> of each <unit>, that is to be translated."""
    pairs = _LanguagePairs(str(path), options)
    for unit in read_units(path, _XLIFF):
        if isinstance(unit, Damage):
            yield unit
        elif _is_translatable(unit) and pairs.wants(unit):
            for raw in _raw_segments(unit, str(path)):
                yield finish_segment(raw, gui=True)
    pairs.check()


@dataclass
class _LanguagePairs:
    """Selects the units of the chosen languages, and remembers which pairs there were."""

    file: str
    options: ReadOptions
    seen: dict[tuple[str, str], None] = field(default_factory=dict)
    found: bool = False

    def wants(self, unit: XmlUnit) -> bool:
        """Returns True for a unit of the chosen languages; a language that is not named fits."""
        pair = _attribute(unit, _SOURCE), _attribute(unit, _TARGET)
        if len(self.seen) < _MOST_PAIRS:
            self.seen[pair] = None
        chosen = self.options.source_language, self.options.target_language
        fits = all(
            not wanted or not language or language_rank(wanted, language) is not None
            for wanted, language in zip(chosen, pair, strict=True)
        )
        self.found = self.found or fits
        return fits

    def check(self) -> None:
        """Refuses languages that no unit has."""
        if self.seen and not self.found:
            there = ", ".join(f"{shorten(one)} to {shorten(other)}" for one, other in self.seen)
            raise UntoldError(
                f"{self.file}: no text in the chosen languages; there is {there}: choose with "
                "--source-language and --target-language"
            )


def _attribute(unit: XmlUnit, names: tuple[str, ...]) -> str:
    values = [each.attributes.get(name) for each in reversed(unit.around) for name in names]
    return next((value for value in values if value), "")


def _is_translatable(unit: XmlUnit) -> bool:
    """Returns False if the unit or else the innermost element around it says translate="no"."""
    around = [each.attributes.get("translate") for each in reversed(unit.around)]
    said = [value for value in (unit.element.get("translate"), *around) if value]
    return not said or said[0] != "no"


def _raw_segments(unit: XmlUnit, file: str) -> Iterator[Segment]:
    element = unit.element
    notes = [*_children(element, "note"), *(n for s in _children(element, "notes") for n in s)]
    texts = [inline_text(note) for note in notes if isinstance(note.tag, str)]
    ignored = ignored_kinds("\n".join(texts))
    parts = _children(element, "segment") or [element]  # XLIFF 2 has segments, XLIFF 1 has none
    for number, part in enumerate(parts, start=1):
        source, target = (next(iter(_children(part, name)), None) for name in ("source", "target"))
        place = next(each for each in (target, source, element) if each is not None)
        yield Segment(
            file,
            unit.line(place),
            "" if source is None else inline_text(source),
            "" if target is None else inline_text(target),
            _name(element, part, number if len(parts) > 1 else 0),
            ignored,
            _unchecked(part, target),
        )


def _name(unit: Any, part: Any, number: int) -> str:
    name = unit.get("id") or unit.get("resname") or ""
    if part is not unit:
        inner = part.get("id") or (str(number) if number else "")
        name = f"{name}/{inner}" if inner else name
    return shorten(name)


def _unchecked(part: Any, target: Any) -> str:
    """Reads the state, which stands at the target in XLIFF 1 and at the segment in XLIFF 2."""
    holders = [part] if target is None else [part, target]
    if any(each.get("state") in _UNTRANSLATED for each in holders):
        return "untranslated"
    return "fuzzy" if any(each.get("state-qualifier") in _FUZZY for each in holders) else ""


def _children(element: Any, name: str) -> list[Any]:
    """Lists the children of a name in the namespace of their parent; extensions have others."""
    space = element.tag.rpartition("}")[0]
    tag = f"{space}}}{name}" if space else name
    return [child for child in element if child.tag == tag]
