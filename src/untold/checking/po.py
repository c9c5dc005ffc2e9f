"""Reads segments from gettext catalogues, entry by entry, so that damage stays in its entry."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from untold.checking.segments import (
    Damage,
    RawLine,
    ReadOptions,
    Segment,
    finish_segment,
    ignored_kinds,
    needs_files,
    read_raw_lines,
)
from untold.errors import one_line, shorten

_KEYWORD = re.compile(rb"(msgctxt|msgid_plural|msgid|msgstr)\b")
_CHARSET = re.compile(rb"Content-Type:.*?charset=([\w.:-]+)", re.IGNORECASE)
_CONTENT = re.compile(
    r'\s*(?:(?:msgctxt|msgid|msgid_plural|msgstr)\s|msgstr\[[0-9]\])?\s*"(?:[^"\\]++|\\.)*+"\s*'
)
_FORM = re.compile(r"\s*msgstr(?:\[([0-9])\])?")
# polib splits at whatever str.splitlines does, and a sentence may hold such characters.
_INNER_BREAKS = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


@dataclass
class _EntryLines:
    """The lines of one entry as they come in."""

    comments: list[bytes] = field(default_factory=list)
    lines: list[RawLine] = field(default_factory=list)
    keywords: set[bytes] = field(default_factory=set)
    after_blank: bool = False

    @property
    def has_msgstr(self) -> bool:
        return b"msgstr" in self.keywords

    def ends_before(self, content: bytes) -> bool:
        """Returns True if a line belongs to the next entry."""
        if content.startswith(b"#~") or (content and self.after_blank and self.has_msgstr):
            return True
        if content.startswith(b"#"):
            return self.has_msgstr or (self.after_blank and bool(self.lines))
        keyword = _keyword(content)
        if keyword in (b"msgctxt", b"msgid"):
            return keyword in self.keywords or bool(self.keywords & {b"msgid", b"msgstr"})
        return False

    def add(self, line: RawLine) -> None:
        content = line[1].strip()
        self.after_blank = not content
        if content.startswith(b"#"):
            if not content.startswith(b"#~"):
                self.comments.append(content)
        elif content:
            self.lines.append(line)
            self.keywords.add(_keyword(content))


def read_po_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:  # noqa: ARG001
    """Reads each translation of a .po or .pot file, also each plural form."""
    try:
        import polib
    except ImportError:
        raise needs_files(path, "polib") from None
    charset: str | None = None
    for block in _blocks(path):
        if isinstance(block, Damage):
            yield block
            continue
        if charset is None:
            charset = _charset(block)
            if not _is_charset(charset):
                reason = f"unknown charset {shorten(charset)}: it is read as UTF-8; mend the header"
                yield Damage(str(path), block.lines[0][0], reason)
                charset = "utf-8"
        yield from _entry(block, str(path), charset, polib)


def _blocks(path: Path) -> Iterator[_EntryLines | Damage]:
    """Cuts a file into entries; obsolete ones, which begin with #~, are left out."""
    block = _EntryLines()
    for line in read_raw_lines(path):
        if isinstance(line, Damage):
            yield line
            continue
        if block.ends_before(line[1].strip()):
            if block.lines:
                yield block
            block = _EntryLines()
        block.add(line)
    if block.lines:
        yield block


def _entry(block: _EntryLines, file: str, charset: str, polib: Any) -> Iterator[Segment | Damage]:
    lines = []
    for number, content in block.lines:
        text = _decode(content, charset)
        if text is None or not _CONTENT.fullmatch(text):
            fault = f"bytes that are not {charset}" if text is None else "not a line of a PO file"
            shown = f"{content[:40]!r}" if text is None else shorten(text.strip())
            yield Damage(file, number, one_line(f"{fault} ({shown}): mend the entry"))
            return
        lines.append((number, text.strip()))
    forms = {int(form[1] or 0): n for n, text in lines if (form := _FORM.match(text))}
    if not forms or b"msgid" not in block.keywords:
        lack = "msgstr" if b"msgid" in block.keywords else "msgid"
        yield Damage(file, lines[0][0], f"an entry without {lack}: complete or remove it")
        return
    try:
        entries = polib.pofile("\n".join(text for _, text in lines), encoding="utf-8")
    except OSError as error:  # so polib calls all mistakes of syntax
        at = re.search(r"\(line (\d+)\)", str(error))
        number = lines[min(int(at[1]), len(lines)) - 1][0] if at else lines[0][0]
        yield Damage(file, number, "polib finds a mistake of syntax here: mend the entry")
        return
    for entry in entries:
        yield from _segments(entry, block, file, forms)


def _segments(
    entry: Any, block: _EntryLines, file: str, forms: dict[int, int]
) -> Iterator[Segment]:
    comments = [comment.decode("utf-8", "replace") for comment in block.comments]
    flags = {flag.strip() for each in comments if each[1:2] == "," for flag in each[2:].split(",")}
    ignored = ignored_kinds("\n".join(each.lstrip("#.") for each in comments))
    name = shorten(entry.msgctxt or entry.msgid)
    unchecked = "fuzzy" if "fuzzy" in flags else ""
    for form, target in (entry.msgstr_plural or {0: entry.msgstr}).items():
        plural = bool(entry.msgstr_plural)
        # A language with one form says one and many alike, so its form translates the plural.
        is_singular = form == 0 and len(entry.msgstr_plural) != 1
        source = entry.msgid if is_singular or not entry.msgid_plural else entry.msgid_plural
        named = f"{name}[{form}]" if plural else name
        raw = Segment(file, forms[form], source, target, named, ignored, unchecked)
        yield finish_segment(raw, gui=True)


def _keyword(content: bytes) -> bytes:
    found = _KEYWORD.match(content)
    return found[1] if found else b""


def _charset(block: _EntryLines) -> str:
    found = _CHARSET.search(b"\n".join(content for _, content in block.lines))
    # Templates say CHARSET until somebody fills in the real one.
    return (
        "utf-8" if found is None or found[1] == b"CHARSET" else found[1].decode("utf-8", "replace")
    )


def _is_charset(charset: str) -> bool:
    try:
        b"a".decode(charset)
    except (LookupError, UnicodeError, ValueError):
        return False
    return True


def _decode(content: bytes, charset: str) -> str | None:
    try:
        return _INNER_BREAKS.sub(" ", content.decode(charset))
    except UnicodeError:
        return None
