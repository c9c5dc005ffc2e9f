"""How much of the source is said, by word links: the coverage difference ratio (Kong et al., 2018).

C is the set of source words with a link, C_ref by the links to the reference and C_gen by those to
the translation, both from one frozen aligner. Links count whose words the aligner knows to
translate one another; with the others, any words of the right number would cover a source. Of a
sentence, CDR = 1 - |C_ref \\ C_gen| / |C_ref|.
Over a corpus, each as a ratio of sums but for the macro mean of CDR:

under-coverage    |C_ref \\ C_gen| / |C_ref|: said by the reference, not by the translation
over-coverage     |C_gen \\ C_ref| / |C_gen|: said by the translation, not by the reference
over-translation  the share of C_gen with more links than to the reference, and more than one

A sentence whose reference covers nothing has no CDR: it is skipped in all of these, and counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from untold.alignment.aligner import Aligner
from untold.corpus.alignments import Alignment
from untold.errors import UntoldError

__all__ = [
    "CoverageDifferences",
    "cdr",
    "coverage_ratio",
    "covered_words",
    "measure_coverage",
    "sentence_cdr",
]


@dataclass(frozen=True)
class CoverageDifferences:
    """Figures of a corpus, all between 0 and 1."""

    macro: float  # the mean CDR of sentences
    micro: float  # the CDR of all their words together
    under: float
    over: float
    repeated: float  # over-translation
    sentences: int
    skipped: int


def measure_coverage(
    aligner: Aligner,
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
) -> CoverageDifferences:
    """Align both sides with the same aligner and compare what they cover."""
    return coverage_ratio(
        _align(aligner, sources, references), _align(aligner, sources, hypotheses)
    )


def coverage_ratio(
    references: Sequence[Alignment], hypotheses: Sequence[Alignment]
) -> CoverageDifferences:
    """The figures of given links, of each source to its reference and to its translation."""
    pairs = [_Counts.of(r, h) for r, h in zip(references, hypotheses, strict=True)]
    counted = [pair for pair in pairs if pair.reference]
    if not counted:
        raise UntoldError(
            f"no CDR: in none of {len(pairs)} sentences has the reference a link to the source; "
            "train the aligner on more text of this kind"
        )
    reference, generated = sum(c.reference for c in counted), sum(c.generated for c in counted)
    missed = sum(c.missed for c in counted) / reference
    return CoverageDifferences(
        macro=sum(1 - c.missed / c.reference for c in counted) / len(counted),
        micro=1 - missed,
        under=missed,
        over=sum(c.added for c in counted) / generated if generated else 0.0,
        repeated=sum(c.repeated for c in counted) / generated if generated else 0.0,
        sentences=len(counted),
        skipped=len(pairs) - len(counted),
    )


def sentence_cdr(
    aligner: Aligner,
    sources: Sequence[str],
    references: Sequence[str],
    hypotheses: Sequence[str],
) -> list[float]:
    """The CDR of each translation, as a reward; 1 where the reference covers nothing.

    Equal pairs are aligned once, so that many samples of one source cost one reference.
    """
    return [
        cdr(reference, generated)
        for reference, generated in zip(
            covered_words(aligner, sources, references),
            covered_words(aligner, sources, hypotheses),
            strict=True,
        )
    ]


def covered_words(
    aligner: Aligner, sources: Sequence[str], targets: Sequence[str]
) -> list[frozenset[int]]:
    """C of each pair, the places of source words with a link; nothing changes it, so keep it."""
    return [_covered(alignment) for alignment in _align(aligner, sources, targets)]


def cdr(reference: frozenset[int], generated: frozenset[int]) -> float:
    """1 - |C_ref \\ C_gen| / |C_ref|, and 1 if there was nothing to cover."""
    return 1 - len(reference - generated) / len(reference) if reference else 1.0


@dataclass(frozen=True)
class _Counts:
    """Of source words in one sentence."""

    reference: int
    generated: int
    missed: int
    added: int
    repeated: int

    @classmethod
    def of(cls, reference: Alignment, hypothesis: Alignment) -> "_Counts":
        before, now = Counter(i for i, _ in reference.sure), Counter(i for i, _ in hypothesis.sure)
        return cls(
            reference=len(before),
            generated=len(now),
            missed=len(before.keys() - now.keys()),
            added=len(now.keys() - before.keys()),
            repeated=sum(links > max(1, before[word]) for word, links in now.items()),
        )


def _covered(alignment: Alignment) -> frozenset[int]:
    return frozenset(i for i, _ in alignment.sure)


def _align(aligner: Aligner, sources: Sequence[str], targets: Sequence[str]) -> list[Alignment]:
    texts = list(zip(sources, targets, strict=True))
    different = list(dict.fromkeys(texts))
    pairs = aligner.split([s for s, _ in different], [t for _, t in different])
    links = dict(zip(different, aligner.align_translations(pairs), strict=True))
    return [links[pair] for pair in texts]
