r"""CDR, the coverage difference ratio (Kong et al., 2018): how much of the source is translated.

An aligner that was trained before and stays frozen links the words of each source to its reference
and to its translation. C_ref and C_gen are the sets of source words with a link to the one and to
the other. A link counts only if the aligner knows its two words as translations of one another;
otherwise any words of the right number would cover a source. CDR of one sentence is

    1 - |C_ref \ C_gen| / |C_ref|

A corpus has these figures. All are ratios of sums, except for the macro mean of CDR:

under-coverage    |C_ref \ C_gen| / |C_ref|: the reference says it, the translation does not
over-coverage     |C_gen \ C_ref| / |C_gen|: the translation says it, the reference does not
over-translation  the share of C_gen that has more than one link, and more than to the reference

A sentence whose reference covers nothing has no CDR. All figures skip it and count it as skipped.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from untold.alignment.aligners import Aligner, load_aligner
from untold.corpus.alignments import Alignment
from untold.errors import UntoldError
from untold.metrics.base import MetricOptions, Score

Texts = Sequence[str]
_NAMES = {
    "CDR micro": "micro",
    "under-coverage": "under",
    "over-coverage": "over",
    "over-translation": "repeated",
}
_MEANINGS = {
    "macro": "higher is better, up to 100: source words said by the reference that the translation "
    "says, too; the mean of sentences",
    "micro": "higher is better, up to 100: the same for the words of all sentences together",
    "under": "lower is better: source words that only the reference says",
    "over": "lower is better: source words that only the translation says",
    "repeated": "lower is better: source words that the translation says more often than the "
    "reference",
}


class Cdr:
    """CDR as a metric: its figures in percent for a corpus, and CDR itself for single sentences."""

    needs_aligner: ClassVar[bool] = True
    ignores: ClassVar[tuple[str, ...]] = ("tokenize", "lowercase")

    def __init__(self, options: MetricOptions) -> None:
        if options.aligner is None:
            raise UntoldError(
                "cdr needs a word aligner: make one with untold align --source F --target F "
                "--save A, of the training corpus, and give --aligner A"
            )
        self._aligner = load_aligner(options.aligner)
        self._aligner.split([], [])  # fails here if a package that splits words is missing

    def corpus_scores(self, sources: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        """Scores a corpus."""
        config = self._aligner.config
        found = measure_cdr(self._aligner, sources, references, hypotheses)
        signature = (
            f"aligner:{config.kind}|words:{config.source_words}-{config.target_words}|case:lc"
            f"|sym:grow-diag-final-and|evidence:{config.evidence}"
        )
        details = f"macro; sentences {found.sentences}, skipped {found.skipped}"
        return [
            Score("CDR", 100 * found.macro, signature, details, _MEANINGS["macro"]),
            *(
                Score(name, 100 * getattr(found, field), signature, meaning=_MEANINGS[field])
                for name, field in _NAMES.items()
            ),
        ]

    def sentence_scores(self, sources: Texts, references: Texts, hypotheses: Texts) -> list[float]:
        """Scores single translations."""
        return sentence_cdr(self._aligner, sources, references, hypotheses)


@dataclass(frozen=True)
class CdrFigures:
    """The figures of a corpus; all ratios are between 0 and 1."""

    macro: float  # the mean CDR of sentences
    micro: float  # the CDR of all their words together
    under: float
    over: float
    repeated: float  # over-translation
    sentences: int
    skipped: int


def measure_cdr(
    aligner: Aligner, sources: Texts, references: Texts, hypotheses: Texts
) -> CdrFigures:
    """Aligns references and translations with the same aligner and compares what they cover."""
    return cdr_of_links(
        align_texts(aligner, sources, references), align_texts(aligner, sources, hypotheses)
    )


def align_texts(aligner: Aligner, sources: Texts, targets: Texts) -> list[Alignment]:
    """Links each source to its translation, by words that translate one another alone."""
    texts = list(zip(sources, targets, strict=True))
    different = list(dict.fromkeys(texts))
    pairs = aligner.split([s for s, _ in different], [t for _, t in different])
    links = dict(zip(different, aligner.align_translations(pairs), strict=True))
    return [links[pair] for pair in texts]


def cdr_of_links(references: Sequence[Alignment], hypotheses: Sequence[Alignment]) -> CdrFigures:
    """Computes the figures from the links of each source to its reference and translation."""
    pairs = [_LinkCounts.of(r, h) for r, h in zip(references, hypotheses, strict=True)]
    counted = [pair for pair in pairs if pair.reference]
    if not counted:
        raise UntoldError(
            f"no CDR: in none of {len(pairs)} sentences has the reference a link to the source; "
            "train the aligner on more text of this kind"
        )
    reference, generated = sum(c.reference for c in counted), sum(c.generated for c in counted)
    missed = sum(c.missed for c in counted) / reference
    return CdrFigures(
        macro=sum(1 - c.missed / c.reference for c in counted) / len(counted),
        micro=1 - missed,
        under=missed,
        over=sum(c.added for c in counted) / generated if generated else 0.0,
        repeated=sum(c.repeated for c in counted) / generated if generated else 0.0,
        sentences=len(counted),
        skipped=len(pairs) - len(counted),
    )


def sentence_cdr(
    aligner: Aligner, sources: Texts, references: Texts, hypotheses: Texts
) -> list[float]:
    """Returns the CDR of each translation; it is 1 where the reference covers nothing.

    Equal pairs are aligned once, so that many samples of one source need one reference only.
    """
    return [
        cdr(reference, generated)
        for reference, generated in zip(
            covered_words(aligner, sources, references),
            covered_words(aligner, sources, hypotheses),
            strict=True,
        )
    ]


def covered_words(aligner: Aligner, sources: Texts, targets: Texts) -> list[frozenset[int]]:
    """Returns C of each pair: the positions of source words with a link. A caller may keep it."""
    return [frozenset(i for i, _ in links.sure) for links in align_texts(aligner, sources, targets)]


def cdr(reference: frozenset[int], generated: frozenset[int]) -> float:
    r"""Computes 1 - |C_ref \ C_gen| / |C_ref|; it is 1 if there was nothing to cover."""
    return 1 - len(reference - generated) / len(reference) if reference else 1.0


@dataclass(frozen=True)
class _LinkCounts:
    """Numbers of source words in one sentence."""

    reference: int
    generated: int
    missed: int
    added: int
    repeated: int

    @classmethod
    def of(cls, reference: Alignment, hypothesis: Alignment) -> "_LinkCounts":
        before, now = Counter(i for i, _ in reference.sure), Counter(i for i, _ in hypothesis.sure)
        return cls(
            reference=len(before),
            generated=len(now),
            missed=len(before.keys() - now.keys()),
            added=len(now.keys() - before.keys()),
            repeated=sum(links > max(1, before[word]) for word, links in now.items()),
        )
