"""Settings of word alignment."""

from typing import Literal

from untold.config.section import Count, CountOrZero, Fraction, Section

__all__ = ["AlignerConfig", "AlignerKind", "Splitting"]

AlignerKind = Literal["eflomal", "fast_align", "hmm", "ibm1", "ibm2", "ibm4"]
Splitting = Literal["blank", "word", "character", "jieba"]


class AlignerConfig(Section):
    """Chooses the model that links words, and how each side is split into words."""

    kind: AlignerKind = "eflomal"
    iterations: Count = 5  # of this model and of each model that initialises it; not of eflomal
    seed: CountOrZero = 1  # of eflomal, which samples
    evidence: Fraction = 0.01  # a word counts as covered if p(t|s) or p(s|t) is at least this
    source_words: Splitting = "blank"
    target_words: Splitting = "blank"
