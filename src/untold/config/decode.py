"""Settings of the search for translations."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from untold.config.section import (
    BatchTokens,
    Beam,
    CountOrZero,
    Factor,
    Section,
    Seed,
    Temperature,
    Weight,
)


class DecodeConfig(Section):
    """Controls beam search and sampling."""

    beam: Beam = 4
    """Hypotheses that the search keeps at each step; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """The power of ((5 + length) / 6) by which log-probabilities are divided; 0 is none."""
    coverage_penalty: Weight = 0.0
    """How much a translation loses for source words that it left out; 0 is nothing."""
    coverage_source: Literal["attention", "past"] = "attention"
    """What tells which words were left out: attention, or the past of a separator."""
    tell_all: Weight = 0.0
    """How much it costs to end while source words are untold; 0 is nothing, 0.5 a good value."""
    int8: bool = False
    """Whether translation multiplies 8-bit numbers: faster on a CPU, a little less exact."""
    nbest: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Translations that are returned for each line."""
    min_length: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """The fewest tokens of a translation, without its end."""
    max_length: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """The most tokens of a translation, with its end."""
    max_ratio: Factor = 3.0
    """A translation has at most this many times the tokens of its source, and 10 more."""
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1000)] = 0
    """No sequence of this many tokens occurs twice in a translation; 0 allows all."""
    sample: bool = False
    """Whether tokens are drawn at random instead of searched."""
    temperature: Temperature = 1.0
    """The sharpness of what is drawn from: below 1 likely tokens become likelier."""
    top_k: CountOrZero = 0
    """Draw from this many of the likeliest tokens; 0 means all."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Draw from the likeliest tokens that together have this probability."""
    seed: Seed = 1
    """The seed of sampling; a line's sample depends on it and on the number of the line alone."""
    batch_tokens: BatchTokens = 4096
    """Source tokens that are translated at once."""

    @model_validator(mode="after")
    def _nbest_fits(self) -> "DecodeConfig":
        if not self.sample and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam at least as wide, not {self.beam}")
        return self
