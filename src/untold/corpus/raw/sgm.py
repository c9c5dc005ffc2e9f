"""Reads test sets in the SGML or XML of NIST and WMT: a source file and its references.

    <refset setid="mt04" srclang="Chinese" trglang="English">
    <doc docid="A" sysid="E01">
    <seg id="1"> The first sentence. </seg>

In newer releases the translator is the refid of the refset instead of the sysid of each document.
Sentences are matched by document and number, because files list their documents in any order.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.lines import read_lines
from untold.errors import UntoldError, shorten

__all__ = ["SgmTestSet", "read_sgm"]

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
