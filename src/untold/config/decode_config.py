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

__all__ = ["DecodeConfig"]


class DecodeConfig(Section):
    """Controls beam search and sampling."""

    beam: Beam = 4
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    coverage_penalty: Weight = 0.0
    coverage_source: Literal["attention", "past"] = "attention"
    nbest: Beam = 1
    min_length: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    max_length: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    max_ratio: Factor = 3.0
    no_repeat_ngram: Annotated[int, Field(ge=0, le=1000)] = 0
    sample: bool = False
    temperature: Temperature = 1.0
    top_k: CountOrZero = 0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    seed: Seed = 1
    batch_tokens: BatchTokens = 4096

    @model_validator(mode="after")
    def _nbest_fits(self) -> "DecodeConfig":
        if not self.sample and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam at least as wide, not {self.beam}")
        return self
