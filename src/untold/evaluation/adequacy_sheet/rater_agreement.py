"""Agreement between raters: Krippendorff's alpha for quality, and equal marks for single words.

    alpha  =  1 - observed disagreement / disagreement expected by chance

Both are means of the squared distance of two ratings: of the same translation, and of any two
translations. Two grades are as far apart as there are ratings between them, with half of those at
either end (Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, ordinal data).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from untold.evaluation.adequacy_sheet.rater_file import RaterFile

__all__ = ["RaterAgreement", "measure_agreement", "ordinal_alpha"]


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
