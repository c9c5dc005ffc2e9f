"""Counts ratings: means of each system, differences between systems, agreement between raters.

The sentence is the unit of all intervals and tests: the ratings that several raters gave to one
translation are averaged first, because they are not independent. Two systems are compared on the
sentences for which a rater has rated both, by the sign-flip test over the differences of sentences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from untold.errors import UntoldError
from untold.evaluation.adequacy_sheet.rater_agreement import RaterAgreement, measure_agreement
from untold.evaluation.adequacy_sheet.rater_file import RaterFile, Rating
from untold.evaluation.adequacy_sheet.sheet_key import SheetKey
from untold.evaluation.seed_statistics import (
    MeanInterval,
    SignFlip,
    SignPatterns,
    mean_interval,
    sign_flip_test,
)

__all__ = [
    "MeasureDifference",
    "RatedPair",
    "RatedSystem",
    "SheetResults",
    "aggregate_ratings",
]

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
