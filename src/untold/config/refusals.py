"""Checks values against a section; whatever is wrong becomes one line in untold's own words.

pydantic finds the mistakes. A line names each with its key, its value and what is allowed, or with
the nearest known key.
"""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from untold.config.limits import allowed_values, plain_type
from untold.config.schema import inner_section, list_sections
from untold.config.section import Section
from untold.errors import UntoldError, shorten

__all__ = ["check_section", "check_section_json"]

AnySection = TypeVar("AnySection", bound=Section)
Spell = Callable[[Sequence[str]], str]

_MOST = 5  # problems that one line names
# What pydantic calls a mistake, and the words for it; all others are about values that a setting
# does not allow, and say what it does allow.
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "value_error": lambda problem: str(problem["ctx"]["error"]),
    "json_invalid": lambda problem: f"is not valid JSON: {problem['ctx']['error']}",
    "string_unicode": lambda _: "is not valid Unicode: write it in UTF-8",
}


def check_section(
    kind: type[AnySection], values: Any, where: str, spell: Spell = ".".join
) -> AnySection:
    """Makes a section of values; the error names every problem, with `spell` for its key."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _refusal(error, kind, values, where, spell) from None


def check_section_json(kind: type[AnySection], text: str | bytes, where: str) -> AnySection:
    """Makes a section of JSON."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        is_json = error.errors()[0]["type"] != "json_invalid"
        raise _refusal(error, kind, json.loads(text) if is_json else {}, where) from None


def _refusal(
    error: ValidationError, kind: type[Section], values: Any, where: str, spell: Spell = ".".join
) -> UntoldError:
    problems = error.errors()
    lines = [_explain(problem, kind, values, spell) for problem in problems[:_MOST]]
    if len(problems) > _MOST:
        lines.append(f"and {len(problems) - _MOST} more")
    return UntoldError(f"{where}: {'; '.join(lines)}")


def _explain(problem: Mapping[str, Any], kind: type[Section], values: Any, spell: Spell) -> str:
    names = [shorten(part) for part in problem["loc"]]
    key = spell(names) if names else ""
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_hint(problem['loc'], kind, values)}"
    if problem["type"] in _WORDS:
        words = _WORDS[problem["type"]](problem)
    else:
        words = f"must be {_allowed_at(kind, problem['loc'], values)}"
    return f"{key}{_shown(problem)}: {words}" if key else words


def _shown(problem: Mapping[str, Any]) -> str:
    value = problem["input"]
    if isinstance(value, (dict, list, tuple, BaseModel)) or problem["type"] == "json_invalid":
        return ""
    try:
        return f" = {shorten(json.dumps(value, ensure_ascii=False, default=str))}"
    except ValueError:  # Python writes no number of thousands of digits
        return ""


def _hint(path: Sequence[str | int], kind: type[Section], values: Any) -> str:
    """Names the nearest known key: of the same section, or one that is nearly the same."""
    sections = list_sections(kind, values).items()
    keys = [f"{name}.{key}".lstrip(".") for name, each in sections for key in each.model_fields]
    last = str(path[-1])
    parent = ".".join(part for part in path[:-1] if isinstance(part, str))
    own = [key for key in keys if key.rpartition(".")[0] == parent]
    for known, cutoff in ((own, 0.7), (keys, 0.85)):
        tails = {key.rpartition(".")[2]: key for key in reversed(known)}
        if close := difflib.get_close_matches(last, tails, n=1, cutoff=cutoff):
            return f"; did you mean {tails[close[0]]}?"
    if not parent:
        return f"; known: {', '.join(own)}"
    return f"; `untold config {parent}` lists the known ones"


def _allowed_at(kind: type[Section], path: Sequence[str | int], values: Any) -> str:
    """Says what the setting at a path may be."""
    annotation, metadata = kind, []
    for part in path:
        values = values.get(part) if isinstance(values, Mapping) else None
        section = inner_section(annotation)
        if section is not None and part in section.model_fields:
            field = section.model_fields[str(part)]
            annotation, metadata = plain_type(field.annotation, field.metadata)
            annotation = inner_section(annotation, values) or annotation
        elif inner := get_args(annotation):  # of a list or a table
            annotation, metadata = plain_type(inner[1 if get_origin(annotation) is dict else 0])
    return allowed_values(annotation, metadata)
