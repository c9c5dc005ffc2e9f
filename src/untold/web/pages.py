"""Makes pages of one file: a template with its style and its modules inside; gives files by name.

A template names its files as a served page does, `<link rel="stylesheet" href="style.css">` and
`<script type="module" src="explain_page.js"></script>`. Modules are joined by a simple rule: each
one stands once, after all that it imports, without its import statements and without the word
`export`. So that this is right, modules

- import by names alone, from files beside them: `import { make } from "./dom.js";`
- export at the definition: `export function`, `export class`, `export const`
- give no two things at their top level the same name, whichever module they are in.

Tests hold the modules to it. The page's policy names the hashes of its own style and script, so a
browser runs nothing else, and nothing in the data of a page can become markup.
"""

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from untold.errors import CONTROLS, escape_controls

PACKAGE = "untold.web"
_TITLE = "<!--title-->"  # a placeholder in templates
_SHEET = re.compile(r'<link rel="stylesheet" href="([\w.]+)">\n')
_SCRIPT = re.compile(r'<script type="module" src="([\w.]+)"></script>')
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_TYPES = re.compile(r"^/\*\* @import .* \*/\n", re.MULTILINE)  # of types, for their checker
_EXPORT = re.compile(r"^export (?=(?:async function|class|const|function) )", re.MULTILINE)
# The place for data in the templates. Data cannot contain it, because every "<" is escaped.
DATA_PLACE = "<!--data-->"
# Inside <script>, only the first could end it or be parsed as markup; no control stands there raw.
_ESCAPED = re.compile(f"[<>&]|{CONTROLS.pattern}")
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_TEMPLATES = frozenset({"check_report.html", "explain_page.html"})  # are given in one piece
# The files that a server gives to browsers.
ASSETS = frozenset(
    file.name for file in files(PACKAGE).iterdir() if PurePath(file.name).suffix in _MEDIA_TYPES
)


def script_json(values: Any) -> str:
    """Writes values as JSON that can stand inside <script>: nothing in it can become markup."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def inline_page(template: str, data: str, title: str = "") -> str:
    """Puts data, which script_json wrote, and a title into a template of one file."""
    page = inline_template(template).replace(_TITLE, html.escape(escape_controls(title)))
    before, _, after = page.partition(DATA_PLACE)
    return before + data + after


@cache
def inline_template(template: str) -> str:
    """Returns a template with style and modules inside; places for title and data stay."""
    page = _text(template)
    style = "\n".join(_text(name) for name in _SHEET.findall(page))
    script_tag = _SCRIPT.search(page)
    if script_tag is None:
        raise ValueError(f"{template} names no module")
    script = f"\n{join_modules(script_tag[1])}"
    page = _SCRIPT.sub(lambda _: f'<script type="module">{script}</script>', page)
    page = _SHEET.sub("", page).replace("</head>", f"<style>{style}</style>\n</head>")
    return page.replace("<!--style-->", _hash(style)).replace("<!--script-->", _hash(script))


def join_modules(entry: str) -> str:
    """Joins a module and all that it imports, each once and after what it needs."""
    order: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in order:
            return
        text = _text(name)
        for other in module_imports(text):
            visit(other)
        order[name] = _EXPORT.sub("", _TYPES.sub("", _IMPORT.sub("", text)))

    visit(entry)
    return "\n".join(f"// {name}\n{text}" for name, text in order.items())


def module_imports(text: str) -> list[str]:
    """Lists the names of the modules that the text of a module imports."""
    return _IMPORT.findall(text)


def _text(name: str) -> str:
    return files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Names a text as a Content-Security-Policy does."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def asset(name: str) -> tuple[bytes, str]:
    """Returns the content and the media type of a file; a name not in ASSETS is a KeyError.

    Templates of reports have their modules inside, and a place for data: a browser that fills it
    in has a page of one file.
    """
    if name not in ASSETS:
        raise KeyError(name)
    if name in _TEMPLATES:
        return inline_template(name).encode(), _MEDIA_TYPES[".html"]
    return files(PACKAGE).joinpath(name).read_bytes(), _MEDIA_TYPES[PurePath(name).suffix]
