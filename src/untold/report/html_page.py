"""A self-contained HTML page that steps through translations: page.html with the data inside."""

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from untold.introspection.share_explanation import ShareExplanation
from untold.report.json_records import share_document

__all__ = ["html_page", "share_page"]

# Placeholders in page.html. The data cannot contain them, because every "<" in it is escaped.
_TITLE, _DATA = "<!--title-->", "<!--data-->"
# Inside <script>, only these characters could end it or be parsed as markup.
_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def share_page(explanations: Sequence[ShareExplanation]) -> bytes:
    """Draws explanations by shares as an HTML page."""
    return html_page(share_document(explanations)).encode()


def html_page(document: Mapping[str, Any]) -> str:
    """Puts a document (docs/explain.md) into the page; its texts cannot become markup."""
    template = files("untold.report").joinpath("page.html").read_text(encoding="utf-8")
    first = document["sentences"][0]["source"]["text"]
    data = json.dumps(document, ensure_ascii=False, allow_nan=False).translate(_ESCAPES)
    return template.replace(_TITLE, html.escape(first)).replace(_DATA, data)
