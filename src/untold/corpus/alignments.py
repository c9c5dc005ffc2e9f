"""Word alignments, a line for each pair, as Pharaoh writes them: `i-j` sure, `ipj` possible."""

import re
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.lines import read_lines
from untold.errors import UntoldError

__all__ = ["Alignment", "read_alignments"]

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class Alignment:
    """Links (source word, target word), counted from 0; every sure one is also possible."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    def targets(self, word: int) -> list[int]:
        """The target words that a source word is surely linked to, in order."""
        return sorted(j for i, j in self.sure if i == word)


def read_alignments(path: Path) -> list[Alignment]:
    """All lines; an empty one is a pair without links."""
    return [_parse(line, f"{path}:{number}") for number, line in enumerate(read_lines(path), 1)]


def _parse(line: str, where: str) -> Alignment:
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise UntoldError(f"{where}: {text!r} is no link: write i-j, or ipj if it is possible")
        link = (int(match[1]), int(match[3]))
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Alignment(frozenset(sure), frozenset(possible))
