"""Word alignments, a line for each pair, as Pharaoh writes them: `i-j` sure, `ipj` possible."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.lines import read_lines
from untold.durable import write_file
from untold.errors import UntoldError

__all__ = [
    "Alignment",
    "alignment_error_rate",
    "check_alignments",
    "read_alignments",
    "write_alignments",
]

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class Alignment:
    """Links (source word, target word), counted from 0; every sure one is also possible."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    def targets(self, word: int) -> list[int]:
        """The target words that a source word is surely linked to, in order."""
        return sorted(j for i, j in self.sure if i == word)

    def check(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Every link is of two words that the pair has, or this is an error."""
        for i, j in self.possible:
            if i >= len(source) or j >= len(target):
                raise UntoldError(
                    f"the link {i}-{j} leads out of a pair of {len(source)} and "
                    f"{len(target)} words ({' '.join(source)[:60]}): links count words "
                    "between blanks, from 0"
                )


def read_alignments(path: Path) -> list[Alignment]:
    """All lines; an empty one is a pair without links."""
    return [_parse(line, f"{path}:{number}") for number, line in enumerate(read_lines(path), 1)]


def check_alignments(
    path: Path, links: Sequence[Alignment], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> None:
    """There is a line of links for each pair, and none leads out of it."""
    if len(links) != len(pairs):
        raise UntoldError(
            f"{path} has {len(links)} lines for {len(pairs)} sentence pairs: "
            "give one line of links for each pair"
        )
    for alignment, (source, target) in zip(links, pairs, strict=True):
        alignment.check(source, target)


def write_alignments(path: Path, alignments: Iterable[Alignment]) -> None:
    """A line for each pair, its links in order: what read_alignments reads."""
    lines = (" ".join(_written(alignment)) + "\n" for alignment in alignments)
    write_file(path, "".join(lines).encode())


def alignment_error_rate(found: Iterable[Alignment], gold: Iterable[Alignment]) -> float | None:
    """AER, 1 - (|A & S| + |A & P|) / (|A| + |S|), over all pairs; None if there are no links.

    A are the sure links that were found, S and P the sure and the possible ones of the gold.
    """
    hits = sizes = 0
    for each, true in zip(found, gold, strict=True):
        hits += len(each.sure & true.sure) + len(each.sure & true.possible)
        sizes += len(each.sure) + len(true.sure)
    return 1 - hits / sizes if sizes else None


def _written(alignment: Alignment) -> list[str]:
    return [
        f"{i}-{j}" if (i, j) in alignment.sure else f"{i}p{j}"
        for i, j in sorted(alignment.possible)
    ]


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
