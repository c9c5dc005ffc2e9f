"""A self-contained HTML page that steps through translations: page.html with the data inside."""

import html
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from untold.errors import escape_controls
from untold.introspection.share_explanation import ShareExplanation
from untold.report.json_records import share_document
from untold.report.pages.script_data import DATA_PLACE, script_json

__all__ = ["html_page", "share_page"]

_TITLE = "<!--title-->"  # a placeholder in page.html


def share_page(explanations: Sequence[ShareExplanation]) -> bytes:
    """Draws explanations by shares as an HTML page."""
    return html_page(share_document(explanations)).encode()


def html_page(document: Mapping[str, Any]) -> str:
    """Puts a document (docs/explain.md) into the page; its texts cannot become markup."""
    template = files("untold.report").joinpath("page.html").read_text(encoding="utf-8")
    first = document["sentences"][0]["source"]["text"]
    title = html.escape(escape_controls(first))
    return template.replace(_TITLE, title).replace(DATA_PLACE, script_json(document))
