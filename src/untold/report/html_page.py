"""A self-contained HTML page that steps through translations, with the data inside."""

from collections.abc import Mapping, Sequence
from typing import Any

from untold.introspection.share_explanation import ShareExplanation
from untold.report.json_records import share_document
from untold.web import inline_page
from untold.web.script_data import script_json

__all__ = ["html_page", "share_page"]


def share_page(explanations: Sequence[ShareExplanation]) -> bytes:
    """Draws explanations by shares as an HTML page."""
    return html_page(share_document(explanations)).encode()


def html_page(document: Mapping[str, Any]) -> str:
    """Puts a document (docs/explain.md) into the page; its texts cannot become markup."""
    first = document["sentences"][0]["source"]["text"]
    return inline_page("explain_page.html", script_json(document), first)
