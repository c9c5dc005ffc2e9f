"""Keeps placeholders, tags and other markup out of the text that a model judges.

A place where markup stood becomes a blank if two words would touch otherwise, and never a second
blank beside one. Text without markup comes out as it went in.
"""

import html
import re
from collections.abc import Callable
from typing import Any

# No XML document can hold the character NUL, so it marks the places where something was removed.
_GONE, _BLANK = "\0", "\n"
_LINE_BREAKS = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_CLOSING = ".,;:!?)]}»”’…\"'。，、；：！？）」』】"
_OPENING = "([{«“„‚‘¿¡\"'（「『【"
_EAST_ASIAN = re.compile(r"[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60]")
_SIGNS = re.compile(r"[<>&%{}$\\_\0]")  # without them nothing below is markup
_MAYBE = re.compile(rf"[<>&%{{}}$\\_\0{_LINE_BREAKS}]")
_DEEPEST = 8  # layers of markup in markup, such as &amp;lt;b&amp;gt;

# Possessive quantifiers and bounded names keep every search linear in the length of the text.
_PATH = r"(?P<path>(?<![A-Za-z])[A-Za-z]:\\[^\s\"<>|\0]*+)"  # C:\new holds no line break
_TAG = r"""
  <!--[^<>]*-->
  | </?[A-Za-z][\w:.-]*+
    (?>\s++[\w:.@-]++(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++))?)*+
    \s*+/?>
"""
_ENTITY = r"""
  &(?:(?:amp|\#38|\#[xX]26);)*
  (?P<entity>\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});
"""
# A digit before the sign makes it a per cent sign; " " is no flag here, for "5 % sure" is text.
_PRINTF = r"""
  (?<![0-9])%
  (?: <PRI[A-Za-z0-9]{1,12}>
    | (?:[1-9][0-9]?\$|\([A-Za-z_][\w.]*+\))?
      [-+\#0']*+(?:\*|[0-9]{1,4})?(?:\.(?:\*|[0-9]{1,4})?)?(?:hh|h|ll|l|L|q|j|z|t)?[A-Za-z@]
  )
"""
_BRACES = r"""
  [%$]\{[^{}\s]*+\}
  | \{\{[^{}]{1,60}+\}\}
  | \{\s?\$[\w-]{1,60}+\s?\}
  | \{(?:[A-Za-z_0-9][\w.\[\]-]*+(?:![rsa])?(?::[^{}\s]{0,20}+)?)?\}
"""
_SHELL = r"(?<![\w$])\$[A-Za-z_]\w*+"
_ESCAPE = rf"(?P<blank>(?<!\\)\\[ntrvf]|[{_LINE_BREAKS}]+)"
_ALWAYS = [_PATH, _TAG, _ENTITY, r"(?P<percent>%%)", _PRINTF, _BRACES, _SHELL, _ESCAPE]
_MARKUP = re.compile("|".join(_ALWAYS), re.VERBOSE)
# Qt and KDE number their arguments; in running text "%5" is Turkish for five per cent.
_GUI_MARKUP = re.compile("|".join([*_ALWAYS, r"(?<![0-9])%L?[1-9](?![0-9])"]), re.VERBOSE)
# The look-behind lets a long row of blanks be looked at once and not once for each blank.
_HOLE = re.compile(r"(?<! )\ *+[\0\n][\0\n\ ]*+")

_BRANCHES = re.compile(r"\{\s*+\w++\s*+,\s*+(?:plural|select|selectordinal)\s*+,")
_CODES = {"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp"}
_ASIAN_ACCELERATOR = re.compile(r"(?<![%$])\([_&][A-Za-z0-9]\)")  # as in 文件(_F)


def plain_text(text: str, *, gui: bool = False) -> str:
    """Returns the text without its markup; `gui` also takes %1 for a placeholder."""
    pattern = _GUI_MARKUP if gui else _MARKUP
    (plain,) = _settle(lambda sides: tuple(_once(side, pattern) for side in sides), (text,))
    return plain


def plain_pair(source: str, target: str) -> tuple[str, str]:
    """Returns both sides of a string of a program without markup and keyboard accelerators."""
    source, target = _settle(_gui_step, (source, target))
    return source, target


def has_branches(text: str) -> bool:
    """Returns True for an ICU message that holds several texts, one for each plural or gender."""
    return _BRANCHES.search(text) is not None


def inline_text(element: Any) -> str:
    """Returns the text of an XML element of TMX or XLIFF, with NUL where code stands in it.

    The content of <g>, <pc>, <hi> and <mrk> is text, that of <bpt>, <ept>, <ph>, <it> and <ut> is
    code of another format, and <sub> is text within such code.
    """
    parts = [element.text or ""]
    for child in element:
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        if not name:
            parts.append(_GONE)
        elif name in _CODES:
            flows = [inline_text(flow) for flow in child if _is_flow(flow)]
            parts += [_GONE, *(f"{_BLANK}{flow}{_BLANK}" for flow in flows)]
        else:
            parts.append(inline_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _is_flow(element: Any) -> bool:
    return isinstance(element.tag, str) and element.tag.rpartition("}")[2] == "sub"


def _settle(
    step: Callable[[tuple[str, ...]], tuple[str, ...]], sides: tuple[str, ...]
) -> tuple[str, ...]:
    """Repeats a step until nothing changes; what is nested too deeply loses its signs."""
    if not any(_MAYBE.search(side) for side in sides):
        return sides  # as most sentences are
    for _ in range(_DEEPEST):
        before, sides = sides, step(sides)
        if sides == before:
            return sides
    return step(tuple(_SIGNS.sub("", side) for side in sides))


def _once(text: str, pattern: re.Pattern[str]) -> str:
    return _HOLE.sub(_fill, pattern.sub(_replace, text))


def _gui_step(sides: tuple[str, ...]) -> tuple[str, ...]:
    source, target = (_once(side, _GUI_MARKUP) for side in sides)
    for sign in "_&":
        source, target = _without_accelerators(source, target, sign)
    return source, target


def _replace(match: re.Match[str]) -> str:
    if match["path"] is not None:
        return match[0]
    if match["percent"] is not None:
        return "%"
    if match["blank"] is not None:
        return _BLANK
    return _GONE if match["entity"] is None else _character(match["entity"])


def _character(entity: str) -> str:
    """Returns what an entity stands for; one that HTML does not know is a placeholder."""
    known = html.unescape(f"&{entity};")
    if known.isspace():
        return _BLANK
    return _GONE if known in ("", "\ufffd", f"&{entity};") else known


def _fill(hole: re.Match[str]) -> str:
    """Decides whether a blank stays where markup was."""
    start, end = hole.span()
    if start == 0 or end == len(hole.string):
        return ""
    left, right = hole.string[start - 1], hole.string[end]
    if _BLANK in hole[0] or hole[0].endswith(" "):
        return " "
    if right in _CLOSING:
        return ""
    if hole[0].startswith(" "):
        return " "
    joined = _EAST_ASIAN.match(left) and _EAST_ASIAN.match(right)
    return "" if joined or left in _OPENING else " "


def _without_accelerators(source: str, target: str, sign: str) -> tuple[str, str]:
    """Drops the sign before the letter of a short cut, such as _File, E&xit and 文件(_F).

    A text has one at most. Within a word the sign counts only if the other side has one, too, in
    another word: snake_case and AT&T are the same on both sides.
    """
    places = _accelerator(source, sign), _accelerator(target, sign)
    words = [_word_at(text, at) for text, at in zip((source, target), places, strict=True)]
    both = None not in places and words[0] != words[1]
    one, other = (
        text if at is None or not (both or _begins_word(text, at)) else _drop(text, at)
        for text, at in zip((source, target), places, strict=True)
    )
    return one, other


def _accelerator(text: str, sign: str) -> int | None:
    """Finds the one sign that may mark a short cut."""
    if text.count(sign) != 1:
        return None
    at = text.index(sign)
    after = text[at + 1 : at + 2]
    inside = text[:at][-1:].isalpha() and after.islower()  # R&D and Q&A are words
    return at if after.isalnum() and (inside or _begins_word(text, at)) else None


def _begins_word(text: str, at: int) -> bool:
    asian = _ASIAN_ACCELERATOR.match(text, at - 1) if at else None
    return at == 0 or text[at - 1].isspace() or text[at - 1] in "\"'«“„‚‘" or asian is not None


def _word_at(text: str, at: int | None) -> str:
    if at is None:
        return ""
    begins = at == 0 or text[at - 1].isspace()
    return ("" if begins else text[:at].split()[-1]) + text[at:].split()[0]


def _drop(text: str, at: int) -> str:
    if at and _ASIAN_ACCELERATOR.match(text, at - 1):
        return _HOLE.sub(_fill, f"{text[: at - 1]}{_GONE}{text[at + 3 :]}")
    return text[:at] + text[at + 1 :]
