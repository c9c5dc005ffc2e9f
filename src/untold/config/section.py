"""Types and helpers that all sections of the configuration share.

Every number has a lower and an upper limit; a section that forgets one cannot be imported. The
limits are far beyond what anybody needs: they stop values that would overflow, or run for ever.
What a machine can hold is another question.

Reads from the type of a setting what values it may have, and words it for people.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from untold.errors import UntoldError

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


def unlimited_numbers(section: type[BaseModel]) -> list[str]:
    """Names the settings of a section that hold a number without a lower or an upper limit."""
    return [
        name
        for name, field in section.model_fields.items()
        if any(
            _is_number(kind) and len(bounds(metadata)) < 2
            for kind, metadata in type_leaves(field.annotation, field.metadata)
        )
    ]


def type_leaves(annotation: Any, metadata: Iterable[Any] = ()) -> Iterator[tuple[Any, list[Any]]]:
    """Yields each plain type inside an annotation, with the metadata that limit its values."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from type_leaves(inner[0], [*metadata, *inner[1:]])
    elif origin in (Union, UnionType):
        for each in inner:
            yield from type_leaves(each, metadata)
    elif origin is Literal or not inner:
        yield annotation, list(metadata)
    else:  # limits of a list or table are not those of its values
        for each in inner:
            yield from type_leaves(each)


def bounds(metadata: Iterable[Any]) -> dict[str, int | float]:
    """Collects the limits, the lower one first, under the names ge or gt and le or lt."""
    flat = [
        each
        for some in metadata
        for each in (some.metadata if isinstance(some, FieldInfo) else [some])
    ]
    names = ("ge", "gt", "le", "lt")
    return {name: getattr(each, name) for name in names for each in flat if hasattr(each, name)}


def plain_type(annotation: Any, metadata: Iterable[Any] = ()) -> tuple[Any, list[Any]]:
    """Takes Annotated and None away from an annotation; returns the rest with its metadata."""
    if get_origin(annotation) is Annotated:
        inner = get_args(annotation)
        return plain_type(inner[0], [*metadata, *inner[1:]])
    if get_origin(annotation) in (Union, UnionType):
        others = [each for each in get_args(annotation) if each is not NoneType]
        if len(others) == 1:
            return plain_type(others[0], metadata)
    return annotation, list(metadata)


def allowed_values(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Says what a setting may be, such as `a whole number from 1 to 1,000`."""
    kind, metadata = plain_type(annotation, metadata)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in inner)
    if origin is tuple and inner[-1] is Ellipsis:
        return f"{allowed_values(inner[0])}, or a list of them"
    if origin is tuple:
        return f"a list of {len(inner)}, each {allowed_values(inner[0])}"
    if origin is dict:
        return f"a table of names, each with {allowed_values(inner[1])}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "a table of settings"
    words = _WORDS.get(kind, "something else")
    return f"{words} {limits}" if (limits := _limits(bounds(metadata))) else words


def _limits(found: dict[str, int | float]) -> str:
    words = {"ge": "from", "gt": "above", "le": "to", "lt": "to below"}
    return " ".join(f"{words[name]} {_number(value)}" for name, value in found.items())


def _number(value: int | float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _is_number(kind: Any) -> bool:
    is_type = isinstance(kind, type) and issubclass(kind, (int, float))
    return is_type and not issubclass(kind, (bool, Enum))


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
