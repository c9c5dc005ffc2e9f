"""What all sections of the configuration share."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Count", "CountOrZero", "Fraction", "Section", "Weight", "as_tuple", "with_preset"]

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """Frozen and strict: a value of the wrong type is refused, never converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def as_tuple(value: Any) -> Any:
    """Lists, as TOML has them, become tuples."""
    return tuple(value) if isinstance(value, list) else value


def with_preset(data: Any, presets: Mapping[str, Mapping[str, Any]], default: str) -> Any:
    """What is written out wins over what the preset says."""
    if not isinstance(data, dict):
        return data
    return dict(presets.get(data.get("preset", default), {})) | data
