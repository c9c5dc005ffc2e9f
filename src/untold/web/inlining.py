"""Makes pages of one file: a template with its style and its modules inside.

A template names them as a served page does, `<link rel="stylesheet" href="style.css">` and
`<script type="module" src="explain_page.js"></script>`. Modules are joined by a simple rule: each
one stands once, after all that it imports, without its import statements and without the word
`export`. So that this is right, modules

- import by names alone, from files beside them: `import { make } from "./dom.js";`
- export at the definition: `export function`, `export class`, `export const`
- give no two things at their top level the same name, whichever module they are in.

Tests hold the modules to it. The page's policy names the hashes of its own style and script, so a
browser runs nothing else.
"""

import base64
import hashlib
import html
import re
from functools import cache
from importlib.resources import files

from untold.errors import escape_controls
from untold.web.script_data import DATA_PLACE

__all__ = ["PACKAGE", "inline_page", "inline_template", "join_modules", "module_imports"]

PACKAGE = "untold.web"
_TITLE = "<!--title-->"  # a placeholder in templates
_SHEET = re.compile(r'<link rel="stylesheet" href="([\w.]+)">\n')
_SCRIPT = re.compile(r'<script type="module" src="([\w.]+)"></script>')
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_TYPES = re.compile(r"^/\*\* @import .* \*/\n", re.MULTILINE)  # of types, for their checker
_EXPORT = re.compile(r"^export (?=(?:async function|class|const|function) )", re.MULTILINE)


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
    found = _SCRIPT.search(page)
    if found is None:
        raise ValueError(f"{template} names no module")
    script = f"\n{join_modules(found[1])}"
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
