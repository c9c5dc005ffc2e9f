"""Types and helpers that all sections of the configuration share.

Every number has a lower and an upper limit; a section that forgets one cannot be imported. The
limits are far beyond what anybody needs: they stop values that would overflow, or run for ever.
What a machine can hold is another question, which memory_estimate.py answers.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from untold.config.limits import unlimited_numbers
from untold.errors import UntoldError

__all__ = [
    "BatchTokens",
    "Beam",
    "Count",
    "CountOrZero",
    "DropRate",
    "Factor",
    "Fraction",
    "Layers",
    "Section",
    "Seed",
    "Share",
    "Temperature",
    "Weight",
    "Width",
    "as_tuple",
    "with_preset",
]

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000_000)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Width = Annotated[int, Field(ge=1, le=65_536)]
Layers = Annotated[int, Field(ge=1, le=200)]
BatchTokens = Annotated[int, Field(ge=1, le=100_000_000)]
Beam = Annotated[int, Field(ge=1, le=1000)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
DropRate = Annotated[float, Field(ge=0.0, le=0.99999)]  # what is kept is scaled by 1 / (1 - rate)
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0, le=1_000_000.0)]
Factor = Annotated[float, Field(gt=0.0, le=1000.0)]
Temperature = Annotated[float, Field(ge=0.001, le=1000.0)]


class Section(BaseModel):
    """A frozen and strict section: it refuses values of the wrong type and unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Refuses a section that has a number without limits."""
        if names := unlimited_numbers(cls):
            raise UntoldError(
                f"{cls.__name__}.{names[0]} needs a lower and an upper limit: annotate it with a "
                "type of untold.config, such as Count, or with Field(ge=..., le=...)"
            )


def as_tuple(value: Any) -> Any:
    """Converts lists, which TOML has, to tuples, which are frozen."""
    return tuple(value) if isinstance(value, list) else value


def with_preset(data: Any, presets: Mapping[str, Mapping[str, Any]], default: str) -> Any:
    """Fills in the values of the named preset; values that are written out win."""
    if not isinstance(data, dict):
        return data
    name = data.get("preset", default)
    return dict(presets.get(name, {}) if isinstance(name, str) else {}) | data
