"""Adequacy sheets, on which people rate translations of anonymous systems.

A sheet has random sources, each with the translations of all systems in shuffled order. Its key
says which is which.
"""

import csv
import hashlib
import io
import json
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass

from untold.corpus.text import open_bytes, read_lines
from untold.errors import UntoldError, escape_controls, shorten
from untold.files import new_directory

_MOST_SYSTEMS = len(string.ascii_uppercase)  # of a sheet: a letter each
_LONGEST = 32_000  # characters: spreadsheet programs cut a cell after 32,767
# The columns of a sheet; `reference` is left out where there is none.
COLUMNS = (
    *("sheet", "row", "source", "reference", "translation"),
    *("quality", "over-translated words", "under-translated words", "comment"),
)
_ROW, _QUALITY, _OVER, _UNDER = COLUMNS[1], *COLUMNS[5:8]
_NEEDED = ("sheet", _ROW, _QUALITY, _OVER, _UNDER)
GUARD = "\u200b"  # in front of a cell that programs might compute, it makes the cell plain text
# Formulas may follow blanks, and Chinese and Japanese programs also know signs of full width. A
# text that begins with the guard itself gets another one, so that undoing gives every text back.
_RISKY = re.compile(f"{GUARD}|\\t|[\\s\ufeff]*[=+\\-@＝＋－＠]")
_DELIMITERS = ",;\t"  # programs of many countries save semicolons under the name of commas
_WHOLE = re.compile(r"([1-5])(?:[.,]0+)?")  # programs may save 4 as 4.0
_NOTHING = ("", "0", "-", "–")  # ways in which a rater says: no words


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
    if len(systems) > _MOST_SYSTEMS:
        raise UntoldError(
            f"{len(systems)} systems: a sheet has at most {_MOST_SYSTEMS}: name fewer"
        )
    lines = _read_cells(source)
    outputs = {name: _read_cells(path, source, len(lines)) for name, path in systems.items()}
    known = None if reference is None else _read_cells(reference, source, len(lines))
    return SheetTexts(lines, outputs, known)


def _read_cells(path: Path, source: Path | None = None, count: int = 0) -> list[str]:
    lines = list(read_lines(path))
    if source is not None and len(lines) != count:
        raise UntoldError(
            f"{path} has {len(lines)} lines and {source} has {count}: line by line they must "
            "belong together"
        )
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
        reference = None if texts.reference is None else _visible(texts.reference[place])
        for letter, system in zip(string.ascii_uppercase, names, strict=False):
            source, text = _visible(texts.source[place]), _visible(texts.systems[system][place])
            rows.append(SheetRow(f"r{item}-{letter}", source, reference, text, system, place + 1))
    content = [[seed], *([row.name, row.source, row.translation, row.system] for row in rows)]
    # The letter in front keeps spreadsheets from seeing 1e5.
    name = f"s{hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]}"
    return Sheet(name, tuple(rows), tuple(texts.systems), seed)


def _visible(text: str) -> str:
    """Shows control characters, which spreadsheet programs would drop or obey."""
    return escape_controls(text, keep="\t")


def guard_cell(text: str) -> str:
    """Returns the text with an invisible character in front if a program might compute it."""
    return GUARD + text if _RISKY.match(text) else text


def unguard_cell(text: str) -> str:
    """Returns the text that was guarded."""
    return text.removeprefix(GUARD)


def sheet_csv(sheet: Sheet) -> bytes:
    """Writes a sheet to fill: UTF-8 with the mark by which spreadsheet programs recognise it."""
    has_reference = any(row.reference is not None for row in sheet.rows)
    columns = [name for name in COLUMNS if has_reference or name != "reference"]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(columns)
    for row in sheet.rows:
        texts = (row.source, row.reference or "", row.translation)
        cells = dict(zip(COLUMNS, (sheet.name, row.name, *map(guard_cell, texts)), strict=False))
        writer.writerow([cells.get(name, "") for name in columns])
    return text.getvalue().encode("utf-8-sig")


def write_sheet(sheet: Sheet, out: Path) -> None:
    """Writes a directory with a folder for raters, and the key beside it."""
    with new_directory(out) as folder:
        (folder / "raters").mkdir()
        (folder / "raters" / "sheet.csv").write_bytes(sheet_csv(sheet))
        (folder / "key.json").write_bytes(key_json(sheet))


@checked_dataclass(frozen=True, config=ConfigDict(strict=True))
class KeyRow:
    """The origin of a row, and a hash of its translation, to notice rows that were shifted."""

    system: str
    line: Annotated[int, Field(gt=0)]
    text: str

    def has_text(self, translation: str) -> bool:
        """Returns True if this is the translation that was to be rated, but for blanks."""
        return self.text == _hash(translation)


@checked_dataclass(frozen=True, config=ConfigDict(strict=True))
class SheetKey:
    """The key of one sheet: its systems in the order in which they were given, and its rows."""

    sheet: str
    systems: tuple[str, ...]
    rows: dict[str, KeyRow]
    seed: int = 0
    format: Literal[1] = 1


def key_json(sheet: Sheet) -> bytes:
    """Writes the key of a sheet."""
    rows = {row.name: KeyRow(row.system, row.line, _hash(row.translation)) for row in sheet.rows}
    values = asdict(SheetKey(sheet.name, sheet.systems, rows, sheet.seed))
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()


def read_key(path: Path) -> SheetKey:
    """Reads a key; anything else is an error that says what to name instead."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        key = TypeAdapter(SheetKey).validate_json(data)
        places = {(row.system, row.line) for row in key.rows.values()}
        if {row.system for row in key.rows.values()} != set(key.systems):
            raise ValueError
        if len(places) < len(key.rows) or len(set(key.systems)) < len(key.systems):
            raise ValueError
    except ValueError:  # pydantic's errors are such, too
        raise UntoldError(
            f"{path}: is no key of untold sheet, or it is damaged: name the key.json that was "
            "written with the sheet"
        ) from None
    return key


def _hash(text: str) -> str:
    """Hashes a text without its blanks and invisible signs, which programs add and drop."""
    seen = "".join(sign for sign in text if sign.isprintable() and not sign.isspace())
    return hashlib.sha256(seen.encode()).hexdigest()[:16]


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

    def rating(self) -> Rating | None:
        quality = self.cell(_QUALITY)
        if not quality:
            return None
        digits = _WHOLE.fullmatch(quality)
        if digits is None:
            raise UntoldError(
                f"{self.place}: the {_QUALITY} {shorten(quality)} must be a whole number from 1 "
                "to 5: correct it, or leave it empty"
            )
        over, under = (self.cell(name) not in _NOTHING for name in (_OVER, _UNDER))
        return Rating(int(digits[1]), over, under)


def read_raters(
    paths: Sequence[Path], key: SheetKey, say: Callable[[str], None]
) -> list[RaterFile]:
    """Reads a file of each rater; says what is suspicious, but no mistake for sure."""
    same_file = {path.resolve(): path for path in paths}
    if len(same_file) < len(paths):
        twice = next(path for path in paths if same_file[path.resolve()] is not path)
        raise UntoldError(f"{twice}: is named twice: name one file of each rater")
    raters = [read_rater_file(path, key) for path in paths]
    known: dict[frozenset[object], Path] = {}
    for path, rater in zip(paths, raters, strict=True):
        if rater.shifted:
            say(
                f"{path}: {len(rater.shifted)} rows have another translation than the sheet, the "
                f"first on line {rater.shifted[0]}: was a column sorted by itself, or edited?"
            )
        same = known.setdefault(frozenset(rater.ratings.items()), path)
        if same != path:
            say(f"{path}: has the very ratings of {same}: is it a copy?")
    return raters


def read_rater_file(path: Path, key: SheetKey) -> RaterFile:
    """Reads the ratings of a file, whatever program saved it; mistakes name line and value."""
    ratings: dict[str, Rating] = {}
    lines: dict[str, int] = {}
    shifted, half_filled = [], 0
    for line in _filled_rows(path):
        row = _check_row(line, key, lines)
        lines[row] = line.number
        if "translation" in line.cells and not key.rows[row].has_text(line.cell("translation")):
            shifted.append(line.number)
        rating = line.rating()
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


def _filled_rows(path: Path) -> Iterator[_FilledRow]:
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
            place = f"{path}:{reader.line_num}"
            if any(cell.strip() for cell in cells[len(columns) :]):
                raise UntoldError(
                    f"{place}: has {len(cells)} cells, but there are {len(columns)} columns: put "
                    "a text with separators into quotes"
                )
            if any(cell.strip() for cell in cells):
                cells_by_name = dict(zip(columns, cells, strict=False))
                yield _FilledRow(place, reader.line_num, cells_by_name)
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
