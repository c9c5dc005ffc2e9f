"""Explanations to a file, whose suffix says what kind; only that kind's library is imported."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from untold.durable import write_file
from untold.errors import UntoldError
from untold.introspection.explanation import CATEGORIES, Explanation
from untold.introspection.pfrnn_explanation import LayerExplanation

__all__ = [
    "FORMATS",
    "LAYER_FORMATS",
    "as_document",
    "check_format",
    "check_layer_format",
    "layer_document",
    "write_explanations",
    "write_layers",
]

_LAYOUT = 1  # raised when a reader of the last layout would go wrong


def as_document(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """The layout of docs/explain.md, for JSON files and inside the page."""
    return {
        "layout": _LAYOUT,
        "categories": list(CATEGORIES),
        "sentences": [explanation.as_record() for explanation in explanations],
    }


def layer_document(explanations: Sequence[LayerExplanation]) -> dict[str, Any]:
    """The same of a model without shares: it has no categories."""
    return {
        "layout": _LAYOUT,
        "sentences": [explanation.as_record() for explanation in explanations],
    }


def check_format(path: Path) -> None:
    """Refuse a name whose suffix is no format, before work is spent on it."""
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise UntoldError(f"{path}: the suffix {path.suffix!r} names no format; known: {known}")


def check_layer_format(path: Path) -> None:
    """The same for past and future layers, which have no page."""
    if path.suffix.lower() not in LAYER_FORMATS:
        raise UntoldError(
            f"{path}: the suffix {path.suffix!r} names no format for a model with past and future "
            f"layers and no separator; known: {', '.join(LAYER_FORMATS)}"
        )


def write_explanations(path: Path, explanations: Sequence[Explanation]) -> None:
    """One file with all of them, whole or not at all."""
    check_format(path)
    write_file(path, FORMATS[path.suffix.lower()](explanations))


def write_layers(path: Path, explanations: Sequence[LayerExplanation]) -> None:
    """The same of past and future layers."""
    check_layer_format(path)
    write_file(path, LAYER_FORMATS[path.suffix.lower()](explanations))


def _picture(kind: str) -> Callable[[Sequence[Explanation]], bytes]:
    def draw(explanations: Sequence[Explanation]) -> bytes:
        from untold.report.heatmap import draw_heatmaps

        return draw_heatmaps(explanations, kind)

    return draw


def _layer_picture(kind: str) -> Callable[[Sequence[LayerExplanation]], bytes]:
    def draw(explanations: Sequence[LayerExplanation]) -> bytes:
        from untold.report.pfrnn_figure import draw_layers

        return draw_layers(explanations, kind)

    return draw


def _json(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _page(explanations: Sequence[Explanation]) -> bytes:
    from untold.report.html_page import write_page

    return write_page(as_document(explanations)).encode()


FORMATS: dict[str, Callable[[Sequence[Explanation]], bytes]] = {
    ".html": _page,
    ".json": lambda explanations: _json(as_document(explanations)),
    ".png": _picture("png"),
    ".svg": _picture("svg"),
}
LAYER_FORMATS: dict[str, Callable[[Sequence[LayerExplanation]], bytes]] = {
    ".json": lambda explanations: _json(layer_document(explanations)),
    ".png": _layer_picture("png"),
    ".svg": _layer_picture("svg"),
}
