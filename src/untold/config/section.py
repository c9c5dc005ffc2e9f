"""Types and helpers that all sections of the configuration share."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Count", "CountOrZero", "Fraction", "Section", "Weight", "as_tuple", "with_preset"]

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """A frozen and strict section: it refuses values of the wrong type and unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def as_tuple(value: Any) -> Any:
    """Converts lists, which TOML has, to tuples, which are frozen."""
    return tuple(value) if isinstance(value, list) else value


def with_preset(data: Any, presets: Mapping[str, Mapping[str, Any]], default: str) -> Any:
    """Fills in the values of the named preset; values that are written out win."""
    if not isinstance(data, dict):
        return data
    return dict(presets.get(data.get("preset", default), {})) | data
