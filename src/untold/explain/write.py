"""Writes explanations to a file, whose suffix chooses the format."""

from collections.abc import Sequence
from pathlib import Path

from untold.errors import UntoldError
from untold.explain.explanation import Explanation
from untold.explain.page import share_json, share_page
from untold.explain.table import refuse_none, with_visible_text
from untold.files import write_file

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
    refuse_none(explanations)
    check_format(path)
    check_figure(path, figure)
    suffix = path.suffix.lower()
    shown = explanations if suffix in _EXACT else with_visible_text(tuple(explanations))
    write_file(path, _written(suffix, shown, figure))


def _written(suffix: str, explanations: Sequence[Explanation], figure: str) -> bytes:
    if suffix == ".html":
        return share_page(explanations)
    if suffix == ".json":
        return share_json(explanations)
    from untold.explain.figures import draw_shares  # brings matplotlib

    return draw_shares(explanations, suffix[1:], figure)
