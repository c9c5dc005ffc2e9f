"""Explanations to a file, whose suffix says what kind; only that kind's library is imported."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from untold.analysis.explanation import CATEGORIES, Explanation
from untold.durable import write_file
from untold.errors import UntoldError

__all__ = ["FORMATS", "as_document", "check_format", "write_explanations"]

_LAYOUT = 1  # raised when a reader of the last layout would go wrong


def as_document(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """The layout of docs/explain.md, for JSON files and inside the page."""
    return {
        "layout": _LAYOUT,
        "categories": list(CATEGORIES),
        "sentences": [explanation.as_record() for explanation in explanations],
    }


def check_format(path: Path) -> None:
    """Refuse a name whose suffix is no format, before work is spent on it."""
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise UntoldError(f"{path}: the suffix {path.suffix!r} names no format; known: {known}")


def write_explanations(path: Path, explanations: Sequence[Explanation]) -> None:
    """One file with all of them, whole or not at all."""
    check_format(path)
    write_file(path, FORMATS[path.suffix.lower()](explanations))


def _picture(kind: str) -> Callable[[Sequence[Explanation]], bytes]:
    def draw(explanations: Sequence[Explanation]) -> bytes:
        from untold.report.heatmap import draw_heatmaps

        return draw_heatmaps(explanations, kind)

    return draw


def _json(explanations: Sequence[Explanation]) -> bytes:
    text = json.dumps(as_document(explanations), ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _page(explanations: Sequence[Explanation]) -> bytes:
    from untold.report.page import write_page

    return write_page(as_document(explanations)).encode()


FORMATS: dict[str, Callable[[Sequence[Explanation]], bytes]] = {
    ".html": _page,
    ".json": _json,
    ".png": _picture("png"),
    ".svg": _picture("svg"),
}
