"""Lists the sections and settings that a configuration can have, with what each may be."""

import ast
import functools
import itertools
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getdoc, getsource
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from untold.config.model import BACKBONES, ModelConfig, model_config_class
from untold.config.section import allowed_values, plain_type


@dataclass(frozen=True)
class Setting:
    """Describes one setting."""

    name: str
    allowed: str  # such as `a whole number from 1 to 1,000`
    default: str | None  # as in TOML; None: it has none
    meaning: str


@dataclass(frozen=True)
class SectionSummary:
    """Describes a section and its settings."""

    name: str  # dotted, such as model.separator
    meaning: str
    settings: tuple[Setting, ...]


def list_sections(section: type[BaseModel], values: Any = None) -> dict[str, type[BaseModel]]:
    """Maps dotted names to a section and all inside it, outer ones first; its own name is empty.

    The values choose the backbone, which is the default one without them.
    """
    found = {"": section}
    for name, field in section.model_fields.items():
        own = values.get(name) if isinstance(values, Mapping) else None
        if inner := inner_section(field.annotation, own):
            below = list_sections(inner, own)
            found |= {f"{name}.{each}".rstrip("."): kind for each, kind in below.items()}
    return found


def describe_sections(section: type[BaseModel], values: Any = None) -> list[SectionSummary]:
    """Describes the sections inside a section, and all their settings, in reading order."""
    sections = list_sections(section, values).items()
    return [summarise_section(name, kind) for name, kind in sections if name]


def summarise_section(name: str, section: type[BaseModel]) -> SectionSummary:
    """Describes one section, without those inside it."""
    settings = tuple(
        Setting(
            each,
            allowed_values(field.annotation, field.metadata),
            _default(field),
            _meaning(section, each),
        )
        for each, field in section.model_fields.items()
        if not isinstance(field.get_default(call_default_factory=True), BaseModel)
    )
    meaning = (getdoc(section) or "").split("\n")[0]
    if presets := getattr(section, "presets", None):
        meaning += f" The presets are {', '.join(presets)}."
    return SectionSummary(name, meaning, settings)


def inner_section(annotation: Any, values: Any = None) -> type[BaseModel] | None:
    """Finds the section in an annotation, or in a list; values choose the backbone of a model."""
    kind, _ = plain_type(annotation)
    if get_origin(kind) is tuple:
        kind, _ = plain_type(get_args(kind)[0])
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return None
    if kind is not ModelConfig:
        return kind
    name = ModelConfig.model_fields["backbone"].default
    name = values.get("backbone", name) if isinstance(values, Mapping) else name
    return model_config_class(name) if isinstance(name, str) and name in BACKBONES else ModelConfig


def _default(field: FieldInfo) -> str | None:
    value = field.get_default(call_default_factory=True)
    return None if value is None else json.dumps(value)


def _meaning(section: type[BaseModel], name: str) -> str:
    """Reads the docstring of a setting; a class that changes a default inherits it."""
    kinds = (kind for kind in section.__mro__ if issubclass(kind, BaseModel))
    texts = (_docstrings(kind).get(name) for kind in kinds)
    return " ".join(next((text for text in texts if text), "").split())


@functools.lru_cache
def _docstrings(section: type[BaseModel]) -> dict[str, str]:
    """Reads the string below each setting of a class.

    pydantic could do so for every class as it is made, but most commands never ask for them, and
    reading all sources takes a tenth of the time in which a command starts.
    """
    try:
        (definition,) = ast.parse(textwrap.dedent(getsource(section))).body
    except (OSError, TypeError):  # a class without a file
        return {}
    found = {}
    lines = definition.body if isinstance(definition, ast.ClassDef) else []
    for setting, text in itertools.pairwise(lines):
        match setting, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                found[name] = meaning
    return found
