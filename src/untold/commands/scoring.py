"""The scores of `untold evaluate`: those of text alone, and CDR, which needs an aligner."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from untold.alignment.aligner import Aligner, load_aligner
from untold.errors import UntoldError
from untold.evaluation.cdr import measure_coverage
from untold.evaluation.metrics import METRICS, Score, corpus_scores

__all__ = ["Scorer", "make_scorer"]

_CDR = "cdr"


@dataclass(frozen=True)
class Scorer:
    """What to score, ready before anything is translated."""

    metrics: tuple[str, ...]
    tokenize: str
    lowercase: bool
    aligner: Aligner | None

    def scores(
        self, sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]
    ) -> list[Score]:
        """In the order in which they were asked for."""
        found: list[Score] = []
        for name in self.metrics:
            if name == _CDR:
                assert self.aligner is not None
                found += _coverage_scores(self.aligner, (sources, references, hypotheses))
            else:
                found += corpus_scores(
                    hypotheses,
                    references,
                    [name],
                    tokenize=self.tokenize,
                    lowercase=self.lowercase,
                )
        return found


def make_scorer(
    metrics: Sequence[str], tokenize: str, lowercase: bool, aligner: Path | None
) -> Scorer:
    """An unknown metric, or cdr without an aligner, is an error now and not after the work."""
    known = (*METRICS, _CDR)
    if unknown := [name for name in metrics if name not in known]:
        raise UntoldError(f"unknown metric {unknown[0]}; known: {', '.join(known)}")
    if _CDR in metrics and aligner is None:
        raise UntoldError(
            "cdr needs a word aligner: make one with untold align --source F --target F --save A, "
            "of the training corpus, and give --aligner A"
        )
    if aligner is not None and _CDR not in metrics:
        raise UntoldError(f"--aligner {aligner} is for cdr: add it to --metrics")
    return Scorer(
        tuple(metrics), tokenize, lowercase, None if aligner is None else load_aligner(aligner)
    )


def _coverage_scores(
    aligner: Aligner, texts: tuple[Sequence[str], Sequence[str], Sequence[str]]
) -> list[Score]:
    """In percent, as the other scores are."""
    config, found = aligner.config, measure_coverage(aligner, *texts)
    signature = (
        f"aligner:{config.kind}|words:{config.source_words}-{config.target_words}|case:lc"
        f"|sym:grow-diag-final-and|evidence:{config.evidence}"
    )
    details = f"macro; sentences {found.sentences}, skipped {found.skipped}"
    return [
        Score("CDR", 100 * found.macro, signature, details),
        Score("CDR micro", 100 * found.micro, signature),
        Score("under-coverage", 100 * found.under, signature),
        Score("over-coverage", 100 * found.over, signature),
        Score("over-translation", 100 * found.repeated, signature),
    ]
