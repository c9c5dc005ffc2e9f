"""Reads the parts of LCSTS, Chinese short texts with summaries, and leaves out bad summaries.

A part is a text file of documents that look like XML but are not, because values have no quotes and
text is not escaped:

    <doc id=0>
        <human_label>5</human_label>
        <summary>
            ...
        </summary>
        <short_text>
            ...
        </short_text>
    </doc>

PART_I has no human_label. In PART_II and PART_III it is a score from 1 to 5, and published results
are those of the documents with at least 3, since Hu et al. (2015).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from untold.corpus.lines import read_lines
from untold.corpus.tables import Pair
from untold.errors import UntoldError, shorten

__all__ = ["LEAST_SCORE", "read_lcsts"]

LEAST_SCORE = 3  # of the documents that published results count

_COLUMNS = ("short_text", "summary")
_LONGEST = 100_000  # characters of a document; those of LCSTS have a few hundred
_DOCUMENT = re.compile(r"\s*<doc\b[^>]*>(.*?)</doc>\s*", re.DOTALL)
_BEGIN, _END = "<doc id=", "</doc>"
_SCORES = ("1", "2", "3", "4", "5")


def read_lcsts(
    path: Path, columns: tuple[str, str] | None, least_score: int = LEAST_SCORE
) -> Iterator[Pair]:
    """Yields short_text and summary of each document whose score, if it has one, is high enough."""
    names = columns or _COLUMNS
    if unknown := [name for name in names if name not in _COLUMNS]:
        raise UntoldError(
            f"{path}: no column {shorten(unknown[0])!r}; set columns to two of: "
            f"{', '.join(repr(name) for name in _COLUMNS)}"
        )
    for line, document in _documents(path):
        place = f"{path}:{line}"
        score = _field(document, "human_label", place, needed=False)
        if score and score not in _SCORES:
            raise UntoldError(
                f"{place}: human_label {shorten(score)!r} is no whole number from 1 to 5: get the "
                "file again"
            )
        if not score or int(score) >= least_score:
            source, target = (_field(document, name, place) for name in names)
            yield Pair(source, target, line, str(path))


def _documents(path: Path) -> Iterator[tuple[int, str]]:
    """Yields what stands between <doc ...> and </doc>, with the line where the document begins."""
    parts: list[str] = []
    start = size = 0
    for number, text in enumerate(read_lines(path), start=1):
        line = text.removeprefix("\ufeff") if number == 1 else text
        if not parts and not line.strip():
            continue
        if not parts:
            start, size = number, 0
        parts.append(line)
        size += len(line)
        if _END in line:
            yield from ((start, body) for body in _bodies("\n".join(parts), f"{path}:{start}"))
            parts = []
        elif size > _LONGEST:
            raise UntoldError(
                f"{path}:{start}: no {_END} within {_LONGEST:,} characters: this is not a part of "
                "LCSTS, or it is damaged"
            )
    if parts:
        raise UntoldError(f"{path}:{start}: the file ends before {_END}: get it again")


def _bodies(text: str, place: str) -> Iterator[str]:
    """Yields the documents of a text that holds nothing else; several may share a line."""
    end = 0
    while end < len(text):
        found = _DOCUMENT.match(text, end)
        if found is None:
            raise UntoldError(
                f"{place}: {shorten(text[end:].strip())!r} stands outside of <doc ...> and {_END}: "
                "this is not a part of LCSTS, or it is damaged"
            )
        if _BEGIN in found[1]:
            raise UntoldError(
                f"{place}: a document begins before the one of this line ends: get the file again"
            )
        end = found.end()
        yield found[1]


def _field(document: str, name: str, place: str, *, needed: bool = True) -> str:
    """Returns the text of a field on one line."""
    found = re.search(rf"<{name}>(.*?)</{name}>", document, re.DOTALL)
    if found is None and needed:
        raise UntoldError(f"{place}: the document has no <{name}>: get the file again")
    lines = found[1].split("\n") if found else []
    return " ".join(line.strip() for line in lines if line.strip())
