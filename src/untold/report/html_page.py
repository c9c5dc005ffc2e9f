"""A self-contained HTML page that steps through translations: page.html with the data inside."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from untold.errors import CONTROLS, escape_controls
from untold.introspection.share_explanation import ShareExplanation
from untold.report.json_records import share_document

__all__ = ["html_page", "script_json", "share_page"]

# Placeholders in page.html. The data cannot contain them, because every "<" in it is escaped.
_TITLE, _DATA = "<!--title-->", "<!--data-->"
# Inside <script>, only the first could end it or be parsed as markup; no control stands there raw.
_ESCAPED = re.compile(f"[<>&]|{CONTROLS.pattern}")


def share_page(explanations: Sequence[ShareExplanation]) -> bytes:
    """Draws explanations by shares as an HTML page."""
    return html_page(share_document(explanations)).encode()


def html_page(document: Mapping[str, Any]) -> str:
    """Puts a document (docs/explain.md) into the page; its texts cannot become markup."""
    template = files("untold.report").joinpath("page.html").read_text(encoding="utf-8")
    first = document["sentences"][0]["source"]["text"]
    title = html.escape(escape_controls(first))
    return template.replace(_TITLE, title).replace(_DATA, script_json(document))


def script_json(values: Any) -> str:
    """Writes values as JSON that can stand inside <script>: nothing in it can become markup."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
