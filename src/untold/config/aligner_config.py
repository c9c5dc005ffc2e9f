"""Settings of word alignment."""

from typing import Literal

from untold.config.section import Count, CountOrZero, Fraction, Section

__all__ = ["AlignerConfig", "AlignerKind", "Splitting"]

AlignerKind = Literal["eflomal", "fast_align", "hmm", "ibm1", "ibm2", "ibm4"]
Splitting = Literal["blank", "word", "character", "jieba"]


class AlignerConfig(Section):
    """The model that links words, and what counts as a word on either side."""

    kind: AlignerKind = "eflomal"
    iterations: Count = 5  # of each model on the way to this one; eflomal plans its own
    seed: CountOrZero = 1  # of eflomal, which draws
    evidence: Fraction = 0.01  # to count as covered: p(t|s) or p(s|t) is at least this
    source_words: Splitting = "blank"
    target_words: Splitting = "blank"
