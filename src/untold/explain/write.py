"""Writes explanations to a file, whose suffix chooses the format, or prints them.

`PICTURES` maps what is explained (the `kind` of the explanations) and the suffix of a file to a
function from explanations to the bytes of the file. A new picture is one file with such a function
and one row here, or an entry point of the group `untold.pictures`. The module of a picture, and
with it matplotlib, is imported when the picture is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from untold.errors import UntoldError, escape_controls
from untold.explain.explanation import Explanation
from untold.files import write_file
from untold.registry import Registry
from untold.terminal import console as make_console

PICTURES: Registry[Callable[[Sequence[Any]], bytes]] = Registry(
    "picture",
    "untold.pictures",
    {
        "shares.html": "untold.explain.page:share_page",
        "shares.json": "untold.explain.page:share_json",
        "shares.png": "untold.explain.figures:share_png",
        "shares.svg": "untold.explain.figures:share_svg",
        "shares-panels.png": "untold.explain.figures:panels_png",
        "shares-panels.svg": "untold.explain.figures:panels_svg",
        "shares-overview.png": "untold.explain.figures:overview_png",
        "shares-overview.svg": "untold.explain.figures:overview_svg",
        "pfrnn.json": "untold.explain.page:pfrnn_json",
        "pfrnn.png": "untold.explain.figures:pfrnn_png",
        "pfrnn.svg": "untold.explain.figures:pfrnn_svg",
    },
)
TABLES: Registry[Callable[[Sequence[Any]], list[RenderableType]]] = Registry(
    "table of explanations",
    "untold.tables",
    {
        "shares": "untold.explain.table:share_table",
        "pfrnn": "untold.explain.table:pfrnn_table",
    },
)
_EXACT = {".json"}  # is read by programs; whatever people look at shows control characters
_MODELS = {"pfrnn": "a model with past and future layers and no separator"}  # for errors, by kind


def picture_suffixes(kind: str | None = None) -> tuple[str, ...]:
    """Lists the suffixes of files for one kind of explanations, or for any kind."""
    names = (Path(name) for name in PICTURES.names)
    return tuple(dict.fromkeys(name.suffix for name in names if kind in (None, name.stem)))


def check_format(path: Path, kind: str | None = None) -> None:
    """Refuses a path whose suffix names no format for this kind (default: for no kind)."""
    known = picture_suffixes(kind)
    if path.suffix.lower() not in known:
        model = f" for {_MODELS.get(kind, f'a model with {kind}')}" if kind else ""
        raise UntoldError(
            f"{path}: the suffix {path.suffix!r} names no format{model}; known: {', '.join(known)}"
        )


def write_explanations(
    path: Path, explanations: Sequence[Explanation], figure: str = "auto"
) -> None:
    """Writes all explanations to one file, which appears whole or not at all.

    `figure` chooses one of several pictures of a format: panels or overview instead of auto.
    """
    kind = _kind_of(explanations)
    check_format(path, kind)
    kind = kind if figure == "auto" else f"{kind}-{figure}"
    check_figure(path, kind)
    suffix = path.suffix.lower()
    shown = explanations if suffix in _EXACT else _with_visible_text(tuple(explanations))
    write_file(path, PICTURES[f"{kind}{suffix}"](shown))


def check_figure(path: Path, kind: str) -> None:
    """Refuses a picture that this kind does not have in the format of the path."""
    name = f"{kind}{path.suffix.lower()}"
    if name not in PICTURES.names:
        _, _, figure = kind.partition("-")
        raise UntoldError(
            f"--figure {figure}: {path} is no figure of past and future, which alone can be drawn "
            "as panels or as overview: leave it out, or give --out a name that ends in .png or .svg"
        )


def print_explanations(explanations: Sequence[Explanation], console: Console | None = None) -> None:
    """Prints all explanations; on a terminal, control characters in their texts are visible."""
    console = console or make_console()
    shown = _with_visible_text(tuple(explanations)) if console.is_terminal else explanations
    for part in TABLES[_kind_of(explanations)](shown):
        console.print(part)


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


def _kind_of(explanations: Sequence[Explanation]) -> str:
    if not explanations:
        raise UntoldError("there is no explanation to show: explain at least one sentence")
    return explanations[0].kind
