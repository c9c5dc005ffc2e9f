"""Reads the files that the paper's data come as: LCSTS, and the test sets of NIST and WMT.

A part of LCSTS is a text file of documents that look like XML but are not, because values have no
quotes and text is not escaped:

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

A test set in SGML or XML is a source file and its references:

    <refset setid="mt04" srclang="Chinese" trglang="English">
    <doc docid="A" sysid="E01">
    <seg id="1"> The first sentence. </seg>

In newer releases the translator is the refid of the refset instead of the sysid of each document.
Sentences are matched by document and number, because files list their documents in any order.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.corpora import Pair
from untold.corpus.text import read_lines
from untold.errors import UntoldError, shorten

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


_PART = re.compile(
    r"<(?P<tag>refset|doc)\b(?P<of_tag>[^>]*)>"
    r"|<seg\b(?P<of_seg>[^>]*)>(?P<text>[^<]*(?:<(?!/?seg\b)[^<]*)*)(?P<end></seg\s*>)?",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")

Place = tuple[str, str]  # docid and number of a sentence


@dataclass(frozen=True)
class SgmTestSet:
    """The sentences of a test set in the order of the source file."""

    sources: list[str]
    references: dict[str, list[str]]  # by translator, in the order of the file


def read_sgm(source: Path, reference: Path) -> SgmTestSet:
    """Reads both files; every translator must have translated every sentence of the source."""
    sources = list(_segments(source).values())
    if len(sources) != 1:
        raise UntoldError(
            f"{source}: {len(sources)} systems have sentences here, but a source has one text: is "
            "it the file of the references?"
        )
    found = {
        name: [_translation(texts, place, name, reference) for place in sources[0]]
        for name, texts in _segments(reference).items()
    }
    if not found:
        raise UntoldError(f"{reference}: holds no <seg>: give the file of the references")
    return SgmTestSet(list(sources[0].values()), found)


def _translation(texts: Mapping[Place, str], place: Place, name: str, path: Path) -> str:
    if place not in texts:
        raise UntoldError(
            f"{path}: translator {shorten(name)!r} has no sentence {shorten(place[1])} of document "
            f"{shorten(place[0])}, which the source has: give the references of the same set"
        )
    return texts[place]


def _segments(path: Path) -> dict[str, dict[Place, str]]:
    """Returns the sentences of each system (a source has one, without a name) by their place."""
    found: dict[str, dict[Place, str]] = {}
    refset = system = document = ""
    for part in _PART.finditer("\n".join(read_lines(path))):
        if part["tag"]:
            attributes = _attributes(part["of_tag"])
            if part["tag"].lower() == "refset":
                refset = attributes.get("refid", "")
            else:
                system = attributes.get("sysid", refset)
                document = attributes.get("docid", "")
            continue
        number = _attributes(part["of_seg"]).get("id", "")
        texts = found.setdefault(system, {})
        if not document or not number or (document, number) in texts or not part["end"]:
            raise UntoldError(
                f"{path}: sentence {shorten(number)!r} of document {shorten(document)!r} has no "
                "docid, no id or no end, or comes twice: get the file again"
            )
        texts[document, number] = " ".join(html.unescape(part["text"]).split())
    return found


def _attributes(text: str) -> dict[str, str]:
    return {
        name.lower(): double or single or bare
        for name, double, single, bare in _ATTRIBUTE.findall(text)
    }
