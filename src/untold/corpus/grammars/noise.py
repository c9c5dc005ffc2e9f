"""References with a clause left out, as careless translations have them.

A clause is what stands between two commas, or between a comma and an end of the sentence; it goes
with its commas. Its source words must be linked to nothing else, so that all of their translation
is gone and no other word's is.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from untold.corpus.grammars.derivations import Sample
from untold.errors import UntoldError

__all__ = ["clauses", "delete_clauses", "without"]

_COMMAS = frozenset({",", "，"})
_FEWEST = 2  # words of a clause, its commas not counted


def delete_clauses(
    samples: Sequence[Sample], share: float, seed: int, reserved: Collection[str]
) -> list[Sample]:
    """The samples in their order, exactly this share of them with a clause less.

    The seed decides which; no target becomes one of the `reserved` sentences.
    """
    dice, wanted = random.Random(seed), round(share * len(samples))
    noisy = list(samples)
    changed = 0
    for number in dice.sample(range(len(samples)), len(samples)):
        if changed == wanted:
            return noisy
        shorter = [without(samples[number], *place) for place in clauses(samples[number])]
        choices = [each for each in shorter if " ".join(each.target) not in reserved]
        if choices:
            noisy[number] = dice.choice(choices)
            changed += 1
    if changed < wanted:
        raise UntoldError(
            f"noise {share}: only {changed} of {len(samples)} references have a clause to delete, "
            f"{wanted} are wanted: ask for at most {changed / len(samples):.2f}"
        )
    return noisy


def clauses(sample: Sample) -> Iterator[tuple[int, int]]:
    """Where clauses of at most half of the target begin and end; the last mark stays."""
    target, last = sample.target, len(sample.target) - 1
    marks = [-1, *(place for place in range(last) if target[place] in _COMMAS), last]
    for left, right in combinations(marks, 2):
        start, stop = max(left, 0), min(right + 1, last)
        words = right - left - 1
        if (
            words >= _FEWEST
            and 2 * (stop - start) <= len(target)
            and _is_closed(sample, range(start, stop))
        ):
            yield start, stop


def without(sample: Sample, start: int, stop: int) -> Sample:
    """The pair without target words start .. stop - 1; a new first word takes over the capital."""
    target = [*sample.target[:start], *sample.target[stop:]]
    if start == 0 and sample.target[0][:1].isupper():
        target[0] = target[0][:1].upper() + target[0][1:]
    links = (
        (i, j if j < start else j - (stop - start))
        for i, j in sample.alignment
        if not start <= j < stop
    )
    return Sample(sample.source, tuple(target), tuple(links))


def _is_closed(sample: Sample, gone: range) -> bool:
    """Some source words are linked to these target words, and to no other."""
    inside = {i for i, j in sample.alignment if j in gone}
    return bool(inside) and all(j in gone for i, j in sample.alignment if i in inside)
