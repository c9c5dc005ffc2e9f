"""Puts data into the script of an HTML page, where nothing in it can become markup."""

import json
import re
from typing import Any

from untold.errors import CONTROLS

__all__ = ["DATA_PLACE", "script_json"]

# The place for data in the templates. Data cannot contain it, because every "<" is escaped.
DATA_PLACE = "<!--data-->"
# Inside <script>, only the first could end it or be parsed as markup; no control stands there raw.
_ESCAPED = re.compile(f"[<>&]|{CONTROLS.pattern}")


def script_json(values: Any) -> str:
    """Writes values as JSON that can stand inside <script>: nothing in it can become markup."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
