"""Agreement between raters: Krippendorff's alpha for quality, and equal marks for single words.

    alpha  =  1 - observed disagreement / disagreement expected by chance

Both are means of the squared distance of two ratings: of the same translation, and of any two
translations. Two grades are as far apart as there are ratings between them, with half of those at
either end (Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, ordinal data).

Draws an adequacy sheet: random sources, each with the translations of shuffled systems.

The cells of an adequacy sheet as comma-separated values that spreadsheet programs may open.

A cell that begins like a formula would be computed, and could even start a program. An invisible
character in front (a zero-width space) makes it plain text that a person reads as before.

The key of an adequacy sheet: which system and which line of the source each row comes from.

Reads a sheet that a rater has filled in, whatever program has saved it.

Counts ratings: means of each system, differences between systems, agreement between raters.

The sentence is the unit of all intervals and tests: the ratings that several raters gave to one
translation are averaged first, because they are not independent. Two systems are compared on the
sentences for which a rater has rated both, by the sign-flip test over the differences of sentences.

A self-contained HTML page on which a rater fills in a sheet: sheet_page.html with the rows.

The browser runs the page's own script and style and nothing else: the page names their hashes.

Prints what the ratings of an adequacy sheet say, as a table and as JSON.
"""

import base64
import csv
import hashlib
import io
import json
import random
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from rich import box
from rich.console import Console
from rich.table import Table

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
from untold.web.pages import DATA_PLACE, script_json

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


# The columns of a sheet; `reference` is left out where there is none.
COLUMNS = (
    *("sheet", "row", "source", "reference", "translation"),
    *("quality", "over-translated words", "under-translated words", "comment"),
)
GUARD = "\u200b"
# Formulas may follow blanks, and Chinese and Japanese programs also know signs of full width. A
# text that begins with the guard itself gets another one, so that undoing gives every text back.
_RISKY = re.compile(f"{GUARD}|\\t|[\\s\ufeff]*[=+\\-@＝＋－＠]")


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
        cells = {
            "sheet": sheet.name,
            "row": row.name,
            "source": guard_cell(row.source),
            "reference": guard_cell(row.reference or ""),
            "translation": guard_cell(row.translation),
        }
        writer.writerow([cells.get(name, "") for name in columns])
    return text.getvalue().encode("utf-8-sig")


_FORMAT = 1
# What Python raises at JSON that is cut, or whose values are missing or strange.
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True)
class KeyRow:
    """The origin of a row, and a hash of its translation, to notice rows that were shifted."""

    system: str
    line: int
    text: str

    def has_text(self, translation: str) -> bool:
        """Returns True if this is the translation that was to be rated, but for blanks."""
        return self.text == _hash(translation)


@dataclass(frozen=True)
class SheetKey:
    """The key of one sheet: its systems in the order in which they were given, and its rows."""

    sheet: str
    systems: tuple[str, ...]
    rows: Mapping[str, KeyRow]


def key_json(sheet: Sheet) -> bytes:
    """Writes the key of a sheet."""
    rows = {row.name: KeyRow(row.system, row.line, _hash(row.translation)) for row in sheet.rows}
    values = {
        "format": _FORMAT,
        "sheet": sheet.name,
        "seed": sheet.seed,
        "systems": list(sheet.systems),
        "rows": {name: asdict(row) for name, row in rows.items()},
    }
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()


def read_key(path: Path) -> SheetKey:
    """Reads a key; anything else is an error that says what to name instead."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        return _parse(json.loads(data))
    except _DAMAGE:
        raise UntoldError(
            f"{path}: is no key of untold sheet, or it is damaged: name the key.json that was "
            "written with the sheet"
        ) from None


def _parse(values: Any) -> SheetKey:
    systems = tuple(values["systems"])
    rows = {name: KeyRow(**fields) for name, fields in values["rows"].items()}
    parts = [values["sheet"], *systems, *(part for row in rows.values() for part in _texts(row))]
    lines = [row.line for row in rows.values()]
    is_whole = all(isinstance(part, str) for part in parts) and all(
        type(line) is int and line > 0 for line in lines
    )
    known = {row.system for row in rows.values()}
    if values["format"] != _FORMAT or not is_whole or not rows or known != set(systems):
        raise ValueError
    places = {(row.system, row.line) for row in rows.values()}
    if len(places) != len(rows) or len(set(systems)) != len(systems):
        raise ValueError
    return SheetKey(values["sheet"], systems, rows)


def _texts(row: KeyRow) -> tuple[str, str]:
    return row.system, row.text


def _hash(text: str) -> str:
    """Hashes a text without its blanks and invisible signs, which programs add and drop."""
    seen = "".join(sign for sign in text if sign.isprintable() and not sign.isspace())
    return hashlib.sha256(seen.encode()).hexdigest()[:16]


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
    units = [[each.ratings[row] for each in raters if row in each.ratings] for row in rows]
    shared = [unit for unit in units if len(unit) > 1]
    return RaterAgreement(
        len(shared),
        ordinal_alpha([[rating.quality for rating in unit] for unit in shared]),
        _equal_share([[rating.over for rating in unit] for unit in shared]),
        _equal_share([[rating.under for rating in unit] for unit in shared]),
    )


def ordinal_alpha(units: Sequence[Sequence[int]]) -> float | None:
    """Returns Krippendorff's alpha; a unit is what several raters said of the same thing."""
    grades = sorted({grade for unit in units for grade in unit})
    together = np.zeros((len(grades), len(grades)))  # how often two grades meet in a unit
    for unit in units:
        counts = np.array([float(unit.count(grade)) for grade in grades])
        if len(unit) > 1:
            together += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    totals = together.sum(0)
    distances = _distances(totals)
    chance = (np.outer(totals, totals) * distances).sum()
    if not chance:
        return None
    return float(1 - (totals.sum() - 1) * (together * distances).sum() / chance)


def _distances(totals: Float[np.ndarray, " g"]) -> Float[np.ndarray, "g g"]:
    """Squares the number of ratings between two grades, with half of those at either end."""
    middles = totals.cumsum() - totals / 2
    return (middles[:, None] - middles[None, :]) ** 2


def _equal_share(units: Sequence[Sequence[bool]]) -> float | None:
    pairs = [one == other for unit in units for one, other in combinations(unit, 2)]
    return sum(pairs) / len(pairs) if pairs else None


_Measure = Callable[[Rating], float]
_MEASURES: dict[str, _Measure] = {
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


def aggregate_ratings(
    key: SheetKey, raters: Sequence[RaterFile], patterns: SignPatterns
) -> SheetResults:
    """Counts the ratings of all raters; a system that nobody has rated is an error."""
    systems = tuple(_rated_system(name, key, raters) for name in key.systems)
    pairs = tuple(
        pair
        for names in combinations(key.systems, 2)
        if (pair := _rated_pair(names, key, raters, patterns)) is not None
    )
    agreement = measure_agreement(raters)
    return SheetResults(key.sheet, tuple(raters), len(key.rows), systems, pairs, agreement)


def _rated_system(name: str, key: SheetKey, raters: Sequence[RaterFile]) -> RatedSystem:
    sentences = [found for line, found in _by_line(name, key, raters).items() if found]
    if not sentences:
        raise UntoldError(
            f"nobody has rated a translation of {name} in sheet {key.sheet}: rate some of every "
            "system"
        )
    means = {
        measure: [_mean([value(rating) for rating in found.values()]) for found in sentences]
        for measure, value in _MEASURES.items()
    }
    return RatedSystem(
        name,
        sum(map(len, sentences)),
        mean_interval(means["quality"]),
        _mean(means["over"]),
        _mean(means["under"]),
    )


def _rated_pair(
    names: tuple[str, str], key: SheetKey, raters: Sequence[RaterFile], patterns: SignPatterns
) -> RatedPair | None:
    """Compares two systems; None if nobody has rated a sentence of both."""
    sides = [_by_line(name, key, raters) for name in names]
    both = [(sides[0][line], sides[1][line]) for line in sides[0] if line in sides[1]]
    both = [(one, other) for one, other in both if one.keys() & other.keys()]
    if not both:
        return None
    found = []
    for value in _MEASURES.values():
        differences = [_mean(list(_differences(one, other, value))) for one, other in both]
        test = sign_flip_test(differences, patterns)
        found.append(MeasureDifference(mean_interval(differences), test))
    return RatedPair(*names, *found)


def _differences(
    one: Mapping[int, Rating], other: Mapping[int, Rating], value: _Measure
) -> Iterator[float]:
    """Yields the differences of those raters who have rated both translations."""
    for rater in sorted(one.keys() & other.keys()):
        yield value(other[rater]) - value(one[rater])


def _by_line(
    system: str, key: SheetKey, raters: Sequence[RaterFile]
) -> dict[int, dict[int, Rating]]:
    """Maps lines of the source to ratings of the system's translation, by number of the rater."""
    return {
        where.line: {
            number: rater.ratings[row]
            for number, rater in enumerate(raters)
            if row in rater.ratings
        }
        for row, where in key.rows.items()
        if where.system == system
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_PARTS = {"script": re.compile(r"<script>(.*?)</script>", re.DOTALL)}
_PARTS["style"] = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def sheet_page(sheet: Sheet) -> bytes:
    """Writes the page; it holds no system's name, and no text can become markup."""
    page = files("untold.lab").joinpath("sheet_page.html").read_text(encoding="utf-8")
    for name, pattern in _PARTS.items():
        page = page.replace(f"<!--{name}-hash-->", _sheet_page_hash(pattern.findall(page)[0]))
    rows = [[row.name, row.source, row.reference, row.translation] for row in sheet.rows]
    data = {"sheet": sheet.name, "columns": list(COLUMNS), "guard": GUARD, "rows": rows}
    return page.replace(DATA_PLACE, script_json(data)).encode()


def _sheet_page_hash(text: str) -> str:
    """Names a text as a Content-Security-Policy does."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def results_record(results: SheetResults) -> dict[str, Any]:
    """Converts everything that was counted for JSON."""
    return {
        "sheet": results.sheet,
        "raters": [_rater_record(rater, results.rows) for rater in results.raters],
        "systems": [asdict(system) for system in results.systems],
        "pairs": [asdict(pair) for pair in results.pairs],
        "agreement": asdict(results.agreement),
    }


def print_results(results: SheetResults, console: Console | None = None) -> None:
    """Prints a table of systems, one of their differences, and notes."""
    console = console or make_console()
    if not console.is_terminal:
        console.width = 10_000
    heading = ["system", "sentences", "ratings", "quality", "over-translated", "under-translated"]
    _print_table(console, heading, [_system_cells(each) for each in results.systems])
    if results.pairs:
        heading = ["difference", "sentences", "quality", "over-translated", "under-translated"]
        _print_table(console, heading, [_pair_cells(each) for each in results.pairs])
    for note in _notes(results):
        console.print(note, markup=False, soft_wrap=True)


def _print_table(console: Console, heading: list[str], rows: list[list[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(heading):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)


def _system_cells(system: RatedSystem) -> list[str]:
    return [
        system.name,
        f"{system.quality.n:,}",
        f"{system.ratings:,}",
        f"{system.quality.mean:.2f}{_reach(system.quality)}",
        f"{100 * system.over:.1f} %",
        f"{100 * system.under:.1f} %",
    ]


def _pair_cells(pair: RatedPair) -> list[str]:
    name = f"{pair.second} - {pair.first}"
    shares = [_difference(each, 100, " %") for each in (pair.over, pair.under)]
    return [name, f"{pair.quality.interval.n:,}", _difference(pair.quality, 1, ""), *shares]


def _difference(found: MeasureDifference, scale: int, unit: str) -> str:
    digits = 1 if scale > 1 else 2
    return f"{scale * found.interval.mean:+.{digits}f}{unit} (p = {found.test.p:.4f})"


def _reach(interval: MeanInterval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" [{interval.low:.2f}, {interval.high:.2f}]"


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
    notes += [_rater_note(rater, results.rows) for rater in results.raters]
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


def _rater_note(rater: RaterFile, rows: int) -> str:
    skipped = f", {rater.half_filled:,} half-filled and skipped" if rater.half_filled else ""
    return f"{rater.name}: {len(rater.ratings):,} of {rows:,} translations rated{skipped}"


def _rater_record(rater: RaterFile, rows: int) -> dict[str, Any]:
    return {
        "file": rater.name,
        "rated": len(rater.ratings),
        "half_filled": rater.half_filled,
        "unrated": rows - len(rater.ratings) - rater.half_filled,
        "shifted_lines": list(rater.shifted),
    }
