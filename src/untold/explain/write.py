"""Writes explanations to a file, whose suffix chooses the format, or prints them."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from untold.errors import UntoldError, escape_controls
from untold.explain.explanation import Explanation
from untold.explain.page import share_json, share_page
from untold.explain.table import share_table
from untold.files import write_file
from untold.terminal import console as make_console

_DRAWN = (".png", ".svg")
_FORMATS = (".html", ".json", *_DRAWN)
_EXACT = {".json"}  # is read by programs; whatever people look at shows control characters


def check_format(path: Path) -> None:
    """Refuses a path whose suffix names no format."""
    if path.suffix.lower() not in _FORMATS:
        raise UntoldError(
            f"{path}: the suffix {path.suffix!r} names no format; known: {', '.join(_FORMATS)}"
        )


def check_figure(path: Path, figure: str) -> None:
    """Refuses a way to draw for what is not drawn."""
    if figure != "auto" and path.suffix.lower() not in _DRAWN:
        raise UntoldError(
            f"--figure {figure}: {path} is no figure: leave it out, or give --out a name that ends "
            "in .png or .svg"
        )


def write_explanations(
    path: Path, explanations: Sequence[Explanation], figure: str = "auto"
) -> None:
    """Writes all explanations to one file, which appears whole or not at all.

    `figure` chooses how .png and .svg are drawn: panels or overview instead of auto.
    """
    _refuse_none(explanations)
    check_format(path)
    check_figure(path, figure)
    suffix = path.suffix.lower()
    shown = explanations if suffix in _EXACT else _with_visible_text(tuple(explanations))
    write_file(path, _written(suffix, shown, figure))


def print_explanations(explanations: Sequence[Explanation], console: Console | None = None) -> None:
    """Prints all explanations; on a terminal, control characters in their texts are visible."""
    _refuse_none(explanations)
    console = console or make_console()
    shown = _with_visible_text(tuple(explanations)) if console.is_terminal else explanations
    for part in share_table(shown):
        console.print(part)


def _written(suffix: str, explanations: Sequence[Explanation], figure: str) -> bytes:
    if suffix == ".html":
        return share_page(explanations)
    if suffix == ".json":
        return share_json(explanations)
    from untold.explain.figures import draw_shares  # brings matplotlib

    return draw_shares(explanations, suffix[1:], figure)


def _with_visible_text(value: Any) -> Any:
    """Makes control characters visible in all texts of a value, before their widths are measured.

    XML forbids them, fonts lack them, and some turn the direction of a whole line.
    """
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, tuple):
        return tuple(map(_with_visible_text, value))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **{name: _with_visible_text(part) for name, part in parts.items()})
    return value


def _refuse_none(explanations: Sequence[Explanation]) -> None:
    if not explanations:
        raise UntoldError("there is no explanation to show: explain at least one sentence")
