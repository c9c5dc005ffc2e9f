"""Reads a sheet that a rater has filled in, whatever program has saved it."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from untold.corpus.lines import read_lines
from untold.errors import UntoldError, shorten
from untold.evaluation.adequacy_sheet.sheet_cells import COLUMNS, unguard_cell
from untold.evaluation.adequacy_sheet.sheet_key import SheetKey

__all__ = ["RaterFile", "Rating", "read_rater_file"]

_ROW, _QUALITY, _OVER, _UNDER = COLUMNS[1], *COLUMNS[5:8]
_NEEDED = ("sheet", _ROW, _QUALITY, _OVER, _UNDER)
_DELIMITERS = ",;\t"  # programs of many countries save semicolons under the name of commas
_WHOLE = re.compile(r"([1-5])(?:[.,]0+)?")  # programs may save 4 as 4.0
_NOTHING = ("", "0", "-", "–")  # ways in which a rater says: no words


@dataclass(frozen=True)
class Rating:
    """The judgement of one rater on one translation."""

    quality: int
    over: bool  # some words were translated more than once or have no source
    under: bool  # some words of the source are missing


@dataclass(frozen=True)
class RaterFile:
    """The ratings of one rater by row, and what could not be used."""

    name: str
    ratings: Mapping[str, Rating]
    half_filled: int  # rows with words or a comment, but without a quality
    shifted: tuple[int, ...]  # lines whose translation is another one than that of the key


@dataclass(frozen=True)
class _FilledRow:
    """A row of the file with its cells by column, and where it stands."""

    place: str
    number: int
    cells: Mapping[str, str]

    def cell(self, name: str) -> str:
        return unguard_cell(self.cells.get(name, "").strip()).strip()


def read_rater_file(path: Path, key: SheetKey) -> RaterFile:
    """Reads the ratings of a file; every mistake names the line and the value."""
    ratings: dict[str, Rating] = {}
    lines: dict[str, int] = {}
    shifted, half_filled = [], 0
    for line in _lines(path):
        row = _check_row(line, key, lines)
        lines[row] = line.number
        if "translation" in line.cells and not key.rows[row].has_text(line.cell("translation")):
            shifted.append(line.number)
        rating = _rating(line)
        if rating is not None:
            ratings[row] = rating
        elif any(line.cell(name) for name in COLUMNS[6:]):
            half_filled += 1
    if not ratings:
        raise UntoldError(f"{path}: no row has a {_QUALITY}: fill in some, from 1 to 5")
    return RaterFile(path.name, ratings, half_filled, tuple(shifted))


def _check_row(line: _FilledRow, key: SheetKey, seen: Mapping[str, int]) -> str:
    """Returns the name of the row, which must be one of this sheet and stand there once."""
    sheet, row = line.cell("sheet"), line.cell(_ROW)
    if sheet != key.sheet:
        raise UntoldError(
            f"{line.place}: is of the sheet {shorten(sheet) or '(none)'}, but the key is of "
            f"{key.sheet}: name the key of that sheet"
        )
    if row not in key.rows:
        raise UntoldError(
            f"{line.place}: the row {shorten(row) or '(none)'} is not in the key: restore the "
            f"column {_ROW} as it was"
        )
    if row in seen:
        raise UntoldError(
            f"{line.place}: the row {row} stands on line {seen[row]}, too: remove one of them"
        )
    return row


def _rating(line: _FilledRow) -> Rating | None:
    quality = line.cell(_QUALITY)
    if not quality:
        return None
    found = _WHOLE.fullmatch(quality)
    if found is None:
        raise UntoldError(
            f"{line.place}: the {_QUALITY} {shorten(quality)} must be a whole number from 1 to 5: "
            "correct it, or leave it empty"
        )
    over, under = (line.cell(name) not in _NOTHING for name in (_OVER, _UNDER))
    return Rating(int(found[1]), over, under)


def _lines(path: Path) -> Iterator[_FilledRow]:
    """Yields the rows below the header that are not blank."""
    texts = list(read_lines(path))
    if not texts:
        raise UntoldError(f"{path}: is empty: name a sheet that was filled in")
    texts[0] = texts[0].removeprefix("\ufeff")
    delimiter = max(_DELIMITERS, key=texts[0].count)
    reader = csv.reader((f"{text}\n" for text in texts), delimiter=delimiter, strict=True)
    try:
        columns = _columns(next(reader), path)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            place = f"{path}:{reader.line_num}"
            if any(cell.strip() for cell in cells[len(columns) :]):
                raise UntoldError(
                    f"{place}: has {len(cells)} cells, but there are {len(columns)} columns: put "
                    "a text with separators into quotes"
                )
            yield _FilledRow(place, reader.line_num, dict(zip(columns, cells, strict=False)))
    except csv.Error as error:
        raise UntoldError(
            f"{path}:{reader.line_num}: is no table of comma-separated values ({error}): save it "
            "as CSV in UTF-8"
        ) from None


def _columns(cells: list[str], path: Path) -> list[str]:
    names = [unguard_cell(cell.strip()).lower() for cell in cells]
    for name in _NEEDED:
        if names.count(name) != 1:
            what = "stands there twice" if name in names else "is missing"
            raise UntoldError(
                f"{path}:1: the column {name} {what}, the columns are {shorten(', '.join(names))}: "
                "restore the first line of the sheet"
            )
    return names
