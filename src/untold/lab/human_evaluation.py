"""Adequacy sheets: people rate translations of anonymous systems, and their ratings are counted.

A sheet has random sources, each with the translations of all systems in shuffled order. Its key
says which is which. The sentence is the unit of all intervals and tests: the ratings that several
raters gave to one translation are averaged first, because they are not independent. Two systems are
compared on the sentences for which a rater has rated both, by the sign-flip test.
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
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass
from rich.console import Console

from untold.corpus.text import open_bytes, read_lines
from untold.errors import UntoldError, escape_controls, shorten
from untold.lab.statistics import (
    MeanInterval,
    SignFlip,
    SignPatterns,
    mean_interval,
    sign_flip_test,
)
from untold.terminal import console as make_console
from untold.terminal import print_table

MOST_SYSTEMS = len(string.ascii_uppercase)  # of a sheet: a letter each
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
    lines = _read_cells(source)
    others = {}
    for path in [*systems.values(), *([] if reference is None else [reference])]:
        others[path] = _read_cells(path)
        if len(others[path]) != len(lines):
            raise UntoldError(
                f"{path} has {len(others[path])} lines and {source} has {len(lines)}: line by "
                "line they must belong together"
            )
    outputs = {name: others[path] for name, path in systems.items()}
    return SheetTexts(lines, outputs, None if reference is None else others[reference])


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


@dataclass(frozen=True)
class RaterAgreement:
    """How far raters agree on the translations that several of them have rated.

    Without such translations there are no figures. Alpha is 1 if all agree and about 0 if they
    guess; it has no value if all ratings are equal, for then there is nothing to agree on.
    """

    translations: int
    alpha: float | None
    over: float | None  # share of pairs of raters who both found such words, or both none
    under: float | None


def measure_agreement(raters: Sequence[RaterFile]) -> RaterAgreement:
    """Measures the agreement on all rows that two raters or more have rated."""
    rows = dict.fromkeys(row for rater in raters for row in rater.ratings)
    units = [[rater.ratings[row] for rater in raters if row in rater.ratings] for row in rows]
    units = [unit for unit in units if len(unit) > 1]
    alpha = ordinal_alpha([[rating.quality for rating in unit] for unit in units])
    pairs = [pair for unit in units for pair in combinations(unit, 2)]
    if not pairs:
        return RaterAgreement(0, alpha, None, None)
    over = fmean(one.over == other.over for one, other in pairs)
    under = fmean(one.under == other.under for one, other in pairs)
    return RaterAgreement(len(units), alpha, over, under)


def ordinal_alpha(units: Sequence[Sequence[int]]) -> float | None:
    """Returns Krippendorff's alpha; a unit is what several raters said of the same thing.

    It is 1 - observed disagreement / disagreement by chance: mean squared distances of two ratings
    of a unit, and of any two. Two grades are as far apart as there are ratings between them, with
    half of those at either end ("Computing Krippendorff's Alpha-Reliability", 2011).
    """
    grades = sorted({grade for unit in units for grade in unit})
    together = np.zeros((len(grades), len(grades)))  # how often two grades meet in a unit
    for unit in units:
        counts = np.array([float(unit.count(grade)) for grade in grades])
        if len(unit) > 1:
            together += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    totals = together.sum(0)
    middles = totals.cumsum() - totals / 2
    distances = (middles[:, None] - middles[None, :]) ** 2
    chance = (np.outer(totals, totals) * distances).sum()
    return float(1 - (totals.sum() - 1) * (together * distances).sum() / chance) if chance else None


_MEASURES: dict[str, Callable[[Rating], float]] = {
    "quality": lambda rating: float(rating.quality),
    "over": lambda rating: float(rating.over),
    "under": lambda rating: float(rating.under),
}


@dataclass(frozen=True)
class RatedSystem:
    """The mean quality of a system, and the shares of its sentences with wrong words."""

    name: str
    ratings: int
    quality: MeanInterval  # its n is the number of sentences
    over: float
    under: float


@dataclass(frozen=True)
class MeasureDifference:
    """The mean difference of one measure, second system minus first, with interval and test."""

    interval: MeanInterval
    test: SignFlip


@dataclass(frozen=True)
class RatedPair:
    """Two systems on the sentences for which somebody has rated both."""

    first: str
    second: str
    quality: MeasureDifference
    over: MeasureDifference
    under: MeasureDifference


@dataclass(frozen=True)
class SheetResults:
    """Everything that the ratings of a sheet say."""

    sheet: str
    raters: tuple[RaterFile, ...]
    rows: int  # of the sheet, all of which a rater can rate
    systems: tuple[RatedSystem, ...]
    pairs: tuple[RatedPair, ...]
    agreement: RaterAgreement


_ByLine = Mapping[int, Mapping[int, Rating]]  # line of the source, number of the rater


def aggregate_ratings(
    key: SheetKey, raters: Sequence[RaterFile], patterns: SignPatterns
) -> SheetResults:
    """Counts the ratings of all raters; a system that nobody has rated is an error."""
    ratings: dict[str, dict[int, dict[int, Rating]]] = {name: {} for name in key.systems}
    for row, origin in key.rows.items():
        for number, rater in enumerate(raters):
            if row in rater.ratings:
                by_rater = ratings[origin.system].setdefault(origin.line, {})
                by_rater[number] = rater.ratings[row]
    if unrated := [name for name in key.systems if not ratings[name]]:
        raise UntoldError(
            f"nobody has rated a translation of {unrated[0]} in sheet {key.sheet}: rate some of "
            "every system"
        )
    systems = tuple(_rated_system(name, ratings[name]) for name in key.systems)
    pairs = [
        _rated_pair((one, other), ratings[one], ratings[other], patterns)
        for one, other in combinations(key.systems, 2)
    ]
    known = tuple(pair for pair in pairs if pair is not None)
    agreement = measure_agreement(raters)
    return SheetResults(key.sheet, tuple(raters), len(key.rows), systems, known, agreement)


def _rated_system(name: str, ratings: _ByLine) -> RatedSystem:
    quality, over, under = (
        [fmean(map(value, by_rater.values())) for by_rater in ratings.values()]
        for value in _MEASURES.values()
    )
    count = sum(map(len, ratings.values()))
    return RatedSystem(name, count, mean_interval(quality), fmean(over), fmean(under))


def _rated_pair(
    names: tuple[str, str], one: _ByLine, other: _ByLine, patterns: SignPatterns
) -> RatedPair | None:
    """Compares two systems within raters; None if nobody has rated a sentence of both."""
    shared = {line: sorted(one[line].keys() & other[line].keys()) for line in one if line in other}
    measures = []
    for value in _MEASURES.values():
        differences = [
            fmean(value(other[line][rater]) - value(one[line][rater]) for rater in raters)
            for line, raters in shared.items()
            if raters
        ]
        if not differences:
            return None
        test = sign_flip_test(differences, patterns)
        measures.append(MeasureDifference(mean_interval(differences), test))
    return RatedPair(*names, *measures)


def results_record(results: SheetResults) -> dict[str, Any]:
    """Converts everything that was counted for JSON."""
    raters = [
        {
            "file": rater.name,
            "rated": len(rater.ratings),
            "half_filled": rater.half_filled,
            "unrated": results.rows - len(rater.ratings) - rater.half_filled,
            "shifted_lines": list(rater.shifted),
        }
        for rater in results.raters
    ]
    record = asdict(results)
    return {"sheet": results.sheet, "raters": raters} | {
        name: record[name] for name in ("systems", "pairs", "agreement")
    }


def print_results(results: SheetResults, console: Console | None = None) -> None:
    """Prints a table of systems, one of their differences, and notes."""
    console = console or make_console()
    shares = ["over-translated", "under-translated"]
    heading = ["system", "sentences", "ratings", "quality", *shares]
    print_table(console, heading, [_system_cells(system) for system in results.systems])
    if results.pairs:
        heading = ["difference", "sentences", "quality", *shares]
        print_table(console, heading, [_pair_cells(pair) for pair in results.pairs])
    for note in _notes(results):
        console.print(note, markup=False, soft_wrap=True)


def _system_cells(system: RatedSystem) -> list[str]:
    quality, reach = system.quality, ""
    if quality.low is not None and quality.high is not None:
        reach = f" [{quality.low:.2f}, {quality.high:.2f}]"
    shares = [f"{100 * share:.1f} %" for share in (system.over, system.under)]
    cells = [system.name, f"{quality.n:,}", f"{system.ratings:,}", f"{quality.mean:.2f}{reach}"]
    return [*cells, *shares]


def _pair_cells(pair: RatedPair) -> list[str]:
    name, quality = f"{pair.second} - {pair.first}", pair.quality
    shares = [
        f"{100 * part.interval.mean:+.1f} % (p = {part.test.p:.4f})"
        for part in (pair.over, pair.under)
    ]
    mean = f"{quality.interval.mean:+.2f} (p = {quality.test.p:.4f})"
    return [name, f"{quality.interval.n:,}", mean, *shares]


def _notes(results: SheetResults) -> list[str]:
    notes = [
        "quality: mean of 1 to 5 over sentences with its 95 % interval (Student's t); "
        "over-, under-translated: share of sentences with such words",
    ]
    if results.pairs:
        tests = [pair.quality.test for pair in results.pairs]
        drawn = next((test.patterns for test in tests if not test.is_exact), None)
        kind = "exact" if drawn is None else f"{drawn:,} patterns, exact up to 20 sentences"
        notes.append(f"p: two-sided sign-flip test over sentences ({kind})")
    notes.append(_agreement_note(results.agreement, len(results.raters)))
    for rater in results.raters:
        skipped = f", {rater.half_filled:,} half-filled and skipped" if rater.half_filled else ""
        rated = f"{len(rater.ratings):,} of {results.rows:,} translations rated"
        notes.append(f"{rater.name}: {rated}{skipped}")
    return notes


def _agreement_note(agreement: RaterAgreement, raters: int) -> str:
    if agreement.over is None or agreement.under is None:
        return f"agreement: no translation was rated by two raters ({raters} in all)"
    alpha = "undefined, all are equal" if agreement.alpha is None else f"{agreement.alpha:.3f}"
    return (
        f"agreement on {agreement.translations:,} translations: quality alpha {alpha} "
        f"(Krippendorff, ordinal), over-translated {100 * agreement.over:.1f} %, under-translated "
        f"{100 * agreement.under:.1f} % equal marks"
    )
