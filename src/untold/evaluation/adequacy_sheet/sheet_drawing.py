"""Draws an adequacy sheet: random sources, each with the translations of shuffled systems."""

import hashlib
import json
import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.lines import read_lines
from untold.errors import UntoldError, escape_controls, shorten

__all__ = ["MOST_SYSTEMS", "Sheet", "SheetRow", "SheetTexts", "draw_sheet", "read_sheet_texts"]

MOST_SYSTEMS = len(string.ascii_uppercase)  # of a sheet: a letter each
_LONGEST = 32_000  # characters: spreadsheet programs cut a cell after 32,767


@dataclass(frozen=True)
class SheetTexts:
    """A source text, its translations by each system, and perhaps its reference: lines of each."""

    source: Sequence[str]
    systems: Mapping[str, Sequence[str]]
    reference: Sequence[str] | None = None


@dataclass(frozen=True)
class SheetRow:
    """One translation to rate; `system` and `line` are for the key alone."""

    name: str  # such as r7-B: the seventh source, and a letter that means another system there
    source: str
    reference: str | None
    translation: str
    system: str
    line: int  # of the source, from 1


@dataclass(frozen=True)
class Sheet:
    """The rows of a sheet, in the order in which they are rated, and a name made of their texts."""

    name: str
    rows: tuple[SheetRow, ...]
    systems: tuple[str, ...]
    seed: int


def read_sheet_texts(
    source: Path, systems: Mapping[str, Path], reference: Path | None
) -> SheetTexts:
    """Reads the files of a sheet, which must have as many lines each as the source."""
    lines = _read_cells(source)
    others = {}
    for path in [*systems.values(), *([] if reference is None else [reference])]:
        others[path] = _read_cells(path)
        if len(others[path]) != len(lines):
            raise UntoldError(
                f"{path} has {len(others[path])} lines and {source} has {len(lines)}: line by "
                "line they must belong together"
            )
    found = {name: others[path] for name, path in systems.items()}
    return SheetTexts(lines, found, None if reference is None else others[reference])


def draw_sheet(texts: SheetTexts, number: int, seed: int) -> Sheet:
    """Draws sources that are not blank, and the order of the systems anew for each of them."""
    candidates = [place for place, line in enumerate(texts.source) if line.strip()]
    if number > len(candidates):
        raise UntoldError(
            f"--number {number}: the source has {len(candidates)} lines that are not blank: ask "
            "for no more"
        )
    dice, rows = random.Random(seed), []
    for item, place in enumerate(dice.sample(candidates, number), start=1):
        names = dice.sample(list(texts.systems), len(texts.systems))
        for letter, system in zip(string.ascii_uppercase, names, strict=False):
            rows.append(
                SheetRow(
                    name=f"r{item}-{letter}",
                    source=_visible(texts.source[place]),
                    reference=None if texts.reference is None else _visible(texts.reference[place]),
                    translation=_visible(texts.systems[system][place]),
                    system=system,
                    line=place + 1,
                )
            )
    return Sheet(_name(rows, seed), tuple(rows), tuple(texts.systems), seed)


def _read_cells(path: Path) -> list[str]:
    lines = list(read_lines(path))
    for number, line in enumerate(lines, start=1):
        if "\r" in line:
            raise UntoldError(
                f"{path}:{number}: has a line end (\\r) inside the line, which a cell of a "
                "spreadsheet would break at: remove it"
            )
        if len(line) > _LONGEST:
            raise UntoldError(
                f"{path}:{number}: has {len(line):,} characters, but a cell of a spreadsheet "
                f"holds {_LONGEST:,}: shorten or remove the sentence ({shorten(line, 20)})"
            )
    return lines


def _visible(text: str) -> str:
    """Shows control characters, which spreadsheet programs would drop or obey."""
    return escape_controls(text, keep="\t")


def _name(rows: Sequence[SheetRow], seed: int) -> str:
    """Names a sheet by its contents; the letter in front keeps spreadsheets from seeing 1e5."""
    content = [[seed], *([row.name, row.source, row.translation, row.system] for row in rows)]
    return f"s{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]}"
