"""One self-contained page that steps through translations: page.html with the data inside."""

import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

__all__ = ["write_page"]

# As they stand in page.html. Neither can come from the data: no "<" of theirs is left.
_TITLE, _DATA = "<!--title-->", "<!--data-->"
# Inside <script> only these could end it or be taken for markup; JSON has an escape for each.
_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def write_page(document: Mapping[str, Any]) -> str:
    """The page of a document of explanations (docs/explain.md), harmless whatever its texts say."""
    template = files("untold.report").joinpath("page.html").read_text(encoding="utf-8")
    first = document["sentences"][0]["source"]["text"]
    data = json.dumps(document, ensure_ascii=False, allow_nan=False).translate(_ESCAPES)
    return template.replace(_TITLE, html.escape(first)).replace(_DATA, data)
