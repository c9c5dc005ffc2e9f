"""Reads from the type of a setting what values it may have, and words it for people."""

from collections.abc import Iterable, Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["allowed_values", "bounds", "plain_type", "type_leaves", "unlimited_numbers"]

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
