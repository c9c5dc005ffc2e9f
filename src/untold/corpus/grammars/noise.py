"""Deletes clauses from references, as careless translators do.

A clause is the text between two commas, or between a comma and an end of the sentence; its commas
are deleted with it. The source words that are linked to the clause must have no other link, so that
their whole translation is deleted and no other word's is.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from untold.corpus.grammars.derivations import Sample
from untold.errors import UntoldError

__all__ = ["clause_spans", "delete_clauses", "remove_span"]

_COMMAS = frozenset({",", "，"})
_MIN_WORDS = 2  # the words of a clause, without its commas


def delete_clauses(
    samples: Sequence[Sample], share: float, seed: int, reserved: Collection[str]
) -> list[Sample]:
    """Deletes one clause from exactly this share of the samples; the order stays.

    The seed decides which samples change. No target becomes one of the `reserved` sentences.
    """
    rng, wanted = random.Random(seed), round(share * len(samples))
    noisy = list(samples)
    changed = 0
    for number in rng.sample(range(len(samples)), len(samples)):
        if changed == wanted:
            return noisy
        shorter = [remove_span(samples[number], *place) for place in clause_spans(samples[number])]
        choices = [each for each in shorter if " ".join(each.target) not in reserved]
        if choices:
            noisy[number] = rng.choice(choices)
            changed += 1
    if changed < wanted:
        raise UntoldError(
            f"noise {share}: only {changed} of {len(samples)} references have a clause to delete, "
            f"{wanted} are wanted: ask for at most {changed / len(samples):.2f}"
        )
    return noisy


def clause_spans(sample: Sample) -> Iterator[tuple[int, int]]:
    """Yields (start, stop) of each clause that covers at most half of the target.

    The final punctuation mark belongs to no clause.
    """
    target, last = sample.target, len(sample.target) - 1
    marks = [-1, *(place for place in range(last) if target[place] in _COMMAS), last]
    for left, right in combinations(marks, 2):
        start, stop = max(left, 0), min(right + 1, last)
        words = right - left - 1
        if (
            words >= _MIN_WORDS
            and 2 * (stop - start) <= len(target)
            and _is_closed(sample, range(start, stop))
        ):
            yield start, stop


def remove_span(sample: Sample, start: int, stop: int) -> Sample:
    """Removes the target words start .. stop - 1; a new first word takes over the capital."""
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
    """Returns True if some source words are linked to these target words, and to no others."""
    inside = {i for i, j in sample.alignment if j in gone}
    return bool(inside) and all(j in gone for i, j in sample.alignment if i in inside)
