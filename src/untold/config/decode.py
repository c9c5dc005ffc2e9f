"""Settings of the search for translations."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from untold.config.section import BatchTokens, Beam, Factor, Section, Seed, Weight

_COLDEST = 0.001  # below it, quotients of log-probabilities overflow


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
    temperature: Annotated[float, Field(ge=0.0, le=1000.0)] = 0.0
    """Above 0, tokens are drawn at random, not searched: at 1 as likely as the model says."""
    seed: Seed = 1
    """The seed of sampling; a line's sample depends on it and on the number of the line alone."""
    batch_tokens: BatchTokens = 4096
    """Source tokens that are translated at once."""

    @model_validator(mode="after")
    def _settings_fit(self) -> "DecodeConfig":
        if 0 < self.temperature < _COLDEST:
            raise ValueError(f"temperature {self.temperature:g} must be 0 or at least {_COLDEST}")
        if not self.temperature and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam at least as wide, not {self.beam}")
        return self
