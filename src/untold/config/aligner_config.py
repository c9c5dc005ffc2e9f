"""Settings of word alignment."""

from typing import Annotated, Literal

from pydantic import Field

from untold.config.section import Fraction, Section

__all__ = ["AlignerConfig", "AlignerKind", "Splitting"]

AlignerKind = Literal["eflomal", "fast_align", "hmm", "ibm1", "ibm2", "ibm4"]
Splitting = Literal["blank", "word", "character", "jieba"]


class AlignerConfig(Section):
    """Chooses the model that links words, and how each side is split into words."""

    kind: AlignerKind = "eflomal"
    """The model that links words."""
    iterations: Annotated[int, Field(ge=1, le=1000)] = (
        5  # of this model and of each model that initialises it; not of eflomal
    )
    """Iterations of this model and of each model that initialises it; not of eflomal."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    """The seed of eflomal, which samples."""
    evidence: Fraction = 0.01
    """A word counts as covered if p(t|s) or p(s|t) is at least this."""
    source_words: Splitting = "blank"
    """How the source is split into words."""
    target_words: Splitting = "blank"
    """How the target is split into words."""
