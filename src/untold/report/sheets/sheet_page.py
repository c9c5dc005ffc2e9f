"""A self-contained HTML page on which a rater fills in a sheet: sheet_page.html with the rows.

The browser runs the page's own script and style and nothing else: the page names their hashes.
"""

import base64
import hashlib
import re
from importlib.resources import files

from untold.evaluation.adequacy_sheet import COLUMNS, GUARD, Sheet
from untold.web.script_data import DATA_PLACE, script_json

__all__ = ["sheet_page"]

_PARTS = {"script": re.compile(r"<script>(.*?)</script>", re.DOTALL)}
_PARTS["style"] = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def sheet_page(sheet: Sheet) -> bytes:
    """Writes the page; it holds no system's name, and no text can become markup."""
    page = files("untold.report.sheets").joinpath("sheet_page.html").read_text(encoding="utf-8")
    for name, pattern in _PARTS.items():
        page = page.replace(f"<!--{name}-hash-->", _hash(pattern.findall(page)[0]))
    rows = [[row.name, row.source, row.reference, row.translation] for row in sheet.rows]
    data = {"sheet": sheet.name, "columns": list(COLUMNS), "guard": GUARD, "rows": rows}
    return page.replace(DATA_PLACE, script_json(data)).encode()


def _hash(text: str) -> str:
    """Names a text as a Content-Security-Policy does."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
