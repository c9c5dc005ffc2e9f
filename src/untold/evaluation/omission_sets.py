"""Test sets of omissions: good translations with something deleted, and what models left out.

The links of the good translation say which source words are omitted. A word without a link is
neither omitted nor told; such words are counted apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from untold.account.damage import DAMAGE_KINDS, candidate_spans, frequent_words
from untold.alignment.aligner import Aligner, split_pairs
from untold.evaluation.separation_report import AlignedPair

__all__ = ["OmissionCase", "OmissionSet", "damaged_sets", "natural_set"]


@dataclass(frozen=True)
class OmissionCase:
    """A pair whose target lacks something, with a label for every source word."""

    source: str
    target: str
    omitted: Bool[np.ndarray, " i"]
    counted: Bool[np.ndarray, " i"]  # omitted or told; the others have no link


@dataclass(frozen=True)
class OmissionSet:
    """Cases of one kind. `intact` are the same pairs before the damage, if there was any."""

    kind: str
    cases: tuple[OmissionCase, ...]
    intact: tuple[tuple[str, str], ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Lists the texts of the cases."""
        return [(case.source, case.target) for case in self.cases]


def damaged_sets(pairs: Sequence[AlignedPair], seed: int = 1) -> list[OmissionSet]:
    """Deletes one content word, a phrase, a clause and the end of each target, if it has such."""
    frequent = frequent_words(pair.target.split() for pair in pairs)
    sets = []
    for kind in DAMAGE_KINDS:
        generator = np.random.default_rng(seed)
        made = [(pair, _delete(kind, pair, frequent, generator)) for pair in pairs]
        kept = [(pair, case) for pair, case in made if case is not None]
        intact = tuple((pair.source, pair.target) for pair, _ in kept)
        sets.append(OmissionSet(kind, tuple(case for _, case in kept), intact))
    return sets


def natural_set(
    pairs: Sequence[AlignedPair], outputs: Sequence[str], aligner: Aligner | None
) -> OmissionSet:
    """Finds what a model left out of its own translations of the same sources.

    A word is omitted if no word that it is linked to in the reference occurs in the output, and
    told if all of them do. On real text a synonym may have taken their place: with an aligner, an
    omitted word has no link in the output either, and a told word has one.
    """
    cases = [_by_words(pair, output) for pair, output in zip(pairs, outputs, strict=True)]
    if aligner is not None:
        linked = _linked_words(pairs, outputs, aligner)
        cases = [_confirmed(case, own) for case, own in zip(cases, linked, strict=True)]
    return OmissionSet("natural", tuple(cases), ())


def _delete(
    kind: str, pair: AlignedPair, frequent: frozenset[str], generator: np.random.Generator
) -> OmissionCase | None:
    """Deletes a span whose source words have no link outside of it."""
    words, size, links = pair.target.split(), len(pair.source.split()), pair.alignment.sure
    for start, stop in candidate_spans(kind, words, frequent, generator):
        inside = {i for i, j in links if start <= j < stop}
        if not inside or any(i in inside and not start <= j < stop for i, j in links):
            continue
        linked = {i for i, _ in links}
        return OmissionCase(
            pair.source,
            " ".join(words[:start] + words[stop:]),
            np.array([i in inside for i in range(size)]),
            np.array([i in linked for i in range(size)]),
        )
    return None


def _linked_words(
    pairs: Sequence[AlignedPair], outputs: Sequence[str], aligner: Aligner
) -> list[Bool[np.ndarray, " i"]]:
    """Tells which source words have a link in the output."""
    split = split_pairs(aligner.config, [pair.source for pair in pairs], list(outputs))
    return [
        np.array([bool(found.targets(i)) for i in range(len(source))], bool)
        for (source, _), found in zip(split, aligner.align(split), strict=True)
    ]


def _confirmed(case: OmissionCase, linked: Bool[np.ndarray, " i"]) -> OmissionCase:
    """Keeps the labels that the links agree with."""
    omitted = case.omitted & ~linked
    told = case.counted & ~case.omitted & linked
    return OmissionCase(case.source, case.target, omitted, omitted | told)


def _by_words(pair: AlignedPair, output: str) -> OmissionCase:
    words, said = pair.target.split(), set(output.split())
    omitted, counted = [], []
    for i in range(len(pair.source.split())):
        wanted = {words[j] for j in pair.alignment.targets(i)}
        omitted.append(bool(wanted) and not wanted & said)
        counted.append(bool(wanted) and (omitted[-1] or wanted <= said))
    return OmissionCase(pair.source, output, np.array(omitted, bool), np.array(counted, bool))
