"""Counts what raters said: means of systems, differences between them, agreement of raters.

The sentence is the unit of all intervals and tests: the ratings that several raters gave to one
translation are averaged first, because they are not independent. Two systems are compared on the
sentences for which a rater has rated both, by the sign-flip test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console

from untold.errors import UntoldError
from untold.lab.sheets import RaterFile, Rating, SheetKey
from untold.lab.statistics import (
    MeanInterval,
    SignFlip,
    SignPatterns,
    mean_interval,
    sign_flip_test,
)
from untold.terminal import console as make_console
from untold.terminal import print_table

_MEASURES = ("quality", "over", "under")


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


def _rated_system(system: str, ratings: _ByLine) -> RatedSystem:
    quality, over, under = (
        [fmean(getattr(rating, name) for rating in raters.values()) for raters in ratings.values()]
        for name in _MEASURES
    )
    count = sum(map(len, ratings.values()))
    return RatedSystem(system, count, mean_interval(quality), fmean(over), fmean(under))


def _rated_pair(
    names: tuple[str, str], one: _ByLine, other: _ByLine, patterns: SignPatterns
) -> RatedPair | None:
    """Compares two systems within raters; None if nobody has rated a sentence of both."""
    shared = {line: sorted(one[line].keys() & other[line].keys()) for line in one if line in other}
    measures = []
    for name in _MEASURES:
        differences = [
            fmean(getattr(other[line][k], name) - getattr(one[line][k], name) for k in raters)
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
