"""Reads, writes and scores word alignments in Pharaoh format.

A line holds the links of one sentence pair: `i-j` is a sure link, `ipj` a possible one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.text import read_lines
from untold.errors import UntoldError
from untold.files import write_file

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


@dataclass(frozen=True)
class Alignment:
    """Holds the links (source word, target word) of one pair, counted from 0.

    Every sure link is also in `possible`.
    """

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    def targets(self, word: int) -> list[int]:
        """Lists the target words that a source word has a sure link to, in order."""
        return sorted(j for i, j in self.sure if i == word)

    def check(self, source: Sequence[str], target: Sequence[str], where: str) -> None:
        """Raises an error that says `where` if a link points at a word that is not there."""
        for i, j in sorted(self.possible):
            if i >= len(source) or j >= len(target):
                raise UntoldError(
                    f"{where}: the link {i}-{j} leads out of a pair of {len(source)} and "
                    f"{len(target)} words ({' '.join(source)[:60]}): links count words from 0"
                )


def read_alignments(path: Path) -> list[Alignment]:
    """Reads one alignment a line; an empty line is a pair without links."""
    return [_parse(line, f"{path}:{number}") for number, line in enumerate(read_lines(path), 1)]


def check_alignments(
    path: Path, links: Sequence[Alignment], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> None:
    """Raises an error unless there is one alignment for each pair and all its words exist."""
    if len(links) != len(pairs):
        raise UntoldError(
            f"{path} has {len(links)} lines for {len(pairs)} sentence pairs: "
            "give one line of links for each pair"
        )
    for line, (alignment, pair) in enumerate(zip(links, pairs, strict=True), start=1):
        alignment.check(*pair, f"{path}:{line}")


def write_alignments(path: Path, alignments: Iterable[Alignment]) -> None:
    """Writes one line for each pair, its links in order, as read_alignments reads them."""
    lines = (f"{format_alignment(alignment)}\n" for alignment in alignments)
    write_file(path, "".join(lines).encode())


def format_alignment(alignment: Alignment) -> str:
    """Writes the links of one pair in order, as a line of a file without its end."""
    return " ".join(
        f"{i}-{j}" if (i, j) in alignment.sure else f"{i}p{j}"
        for i, j in sorted(alignment.possible)
    )


def alignment_error_rate(found: Iterable[Alignment], gold: Iterable[Alignment]) -> float | None:
    """Computes AER = 1 - (|A & S| + |A & P|) / (|A| + |S|) over all pairs.

    A are the sure links that were found; S and P are the sure and the possible links of the gold
    alignment. The rate is None if there are no links at all.
    """
    hits = sizes = 0
    for candidate, reference in zip(found, gold, strict=True):
        hits += len(candidate.sure & reference.sure) + len(candidate.sure & reference.possible)
        sizes += len(candidate.sure) + len(reference.sure)
    return 1 - hits / sizes if sizes else None


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
