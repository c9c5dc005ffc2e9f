"""Reads segments from gettext catalogues by polib; a damaged catalogue is one damage.

polib takes text without quotes and entries without a msgstr for good, and loses lines: it reads
only what has the shape of a catalogue.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from untold.checking.segments import (
    Damage,
    Damaged,
    ReadOptions,
    Segment,
    finish_segment,
    ignored_kinds,
    needs_files,
    read_raw_lines,
)
from untold.errors import one_line, shorten

_LARGEST = 64 << 20  # bytes; polib holds a catalogue in memory, at ten times its size
_CHARSET = re.compile(rb"Content-Type:.*?charset=(?!CHARSET\b)([\w.:-]+)", re.IGNORECASE)
_STRING = re.compile(
    r'(?:(msgctxt|msgid|msgid_plural|msgstr)(?:\s|\[([0-9])\]))?\s*"(?:[^"\\]++|\\.)*+"'
)
_BEFORE = {  # what may stand before each keyword, or before a line without one
    "msgctxt": ("", "msgstr"),
    "msgid": ("", "msgctxt", "msgstr"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid", "msgid_plural", "msgstr"),
    None: ("msgctxt", "msgid", "msgid_plural", "msgstr"),
}
_SIGN = re.compile(r"#(?>[.,:~]|(?!#))(?=\S)")  # of a comment; polib wants a blank behind it
# polib splits at whatever str.splitlines does, and a sentence may hold such characters.
_INNER_BREAKS = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


def read_po(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:  # noqa: ARG001
    """Reads each translation of a .po or .pot file, also each plural form."""
    try:
        import polib
    except ImportError:
        raise needs_files(path, "polib") from None
    try:
        lines = _decode(_contents(path))
        forms = _msgstr_lines(lines)
        try:
            # The line end at the end keeps polib from taking a text for the name of a file.
            catalogue = polib.pofile("\n".join([*lines, ""]), encoding="utf-8")
        except OSError as error:  # so polib calls all mistakes of syntax
            at = re.search(r"\(?line (\d+)\)", str(error))
            raise Damaged(
                int(at[1]) if at else 1, "polib finds a mistake of syntax: mend it"
            ) from None
    except Damaged as damaged:
        line, reason = damaged.args
        yield Damage(str(path), line, one_line(reason))
        return
    begins = list(forms)
    for entry in catalogue:
        if entry.msgid and not entry.obsolete:
            comment = catalogue.header if entry.linenum == 0 else ""  # of a file without a header
            begin = begins[bisect_left(begins, int(entry.linenum or 0))]
            yield from _segments(entry, comment, str(path), forms[begin])


def _contents(path: Path) -> list[bytes]:
    contents, size = [], 0
    for line in read_raw_lines(path):
        if isinstance(line, Damage):
            raise Damaged(line.line, line.reason)
        contents.append(line[1])
        size += len(line[1]) + 1
        if size > _LARGEST:
            raise Damaged(line[0], f"the catalogue is longer than {_LARGEST >> 20} MiB: divide it")
    return contents


def _decode(contents: list[bytes]) -> list[str]:
    """Decodes lines by the charset of the header; comments may hold bytes of another one."""
    data = b"\n".join(contents)
    header = data.partition(b"msgstr")[2].partition(b"\nmsgid")[0]
    declared = _CHARSET.search(header)
    # Templates say CHARSET until somebody fills in the real one.
    charset = declared[1].decode("ascii") if declared else "utf-8"
    try:
        b"a".decode(charset)  # refuses codecs that do not give text
    except (LookupError, UnicodeError, ValueError):
        line = data[: data.find(declared[0] if declared else b"")].count(b"\n") + 1
        raise Damaged(line, f"unknown charset {shorten(charset)}: mend the header") from None
    lines = []
    for number, content in enumerate(contents, start=1):
        is_comment = content.lstrip().startswith(b"#")
        try:
            text = content.decode(charset, "replace" if is_comment else "strict")
        except UnicodeError:
            raise Damaged(
                number, f"bytes that are not {charset} ({content[:40]!r}): mend it"
            ) from None
        text = _INNER_BREAKS.sub(" ", text).strip()
        lines.append(_comment(text) if is_comment else text)
    return lines


def _comment(text: str) -> str:
    """Writes a comment as polib wants it; previous texts and bare signs it may stumble over."""
    if len(text) < 3 or text.startswith(("#|", "#~|")):
        return ""
    return _SIGN.sub(lambda sign: f"{sign[0]} ", text, count=1)


def _msgstr_lines(lines: list[str]) -> dict[int, dict[int, int]]:
    """Maps the line of a msgid to the lines of its msgstr by plural form; refuses bad shapes."""
    forms: dict[int, dict[int, int]] = {}
    before, begins = "", 0
    for number, text in enumerate(lines, start=1):
        if text.startswith("#"):
            before = "" if before == "msgstr" else before  # a comment ends an entry
        elif text:
            string = _STRING.fullmatch(text)
            if string is None or before not in _BEFORE[string[1]]:
                raise Damaged(
                    number, f"{shorten(text)} cannot stand here: mend it, or what is before it"
                )
            before = string[1] or before
            begins = number if string[1] == "msgid" else begins
            if string[1] == "msgstr":
                forms.setdefault(begins, {})[int(string[2] or 0)] = number
    if before not in ("", "msgstr"):
        raise Damaged(begins, "the entry has no msgstr: complete it")
    return forms


def _segments(entry: Any, comment: str, file: str, forms: dict[int, int]) -> Iterator[Segment]:
    ignored = ignored_kinds("\n".join((entry.tcomment, entry.comment, comment)))
    name = shorten(entry.msgctxt or entry.msgid)
    plural = entry.msgstr_plural
    for form, target in (plural or {0: entry.msgstr}).items():
        # A language with one form says one and many alike, so its form translates the plural.
        is_singular = form == 0 and len(plural) != 1
        source = entry.msgid if is_singular or not entry.msgid_plural else entry.msgid_plural
        named = f"{name}[{form}]" if plural else name
        unchecked = "fuzzy" if entry.fuzzy else ""
        raw = Segment(file, forms[form], source, target, named, ignored, unchecked)
        yield finish_segment(raw, gui=True)
