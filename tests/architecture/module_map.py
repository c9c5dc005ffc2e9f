"""Writes the map of docs/architecture.md from the first sentence of every module.

    python tests/architecture/module_map.py --write

A test compares the page with what this makes, so the map cannot drift from the code.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = ROOT / "src" / "untold"
BEGIN, END = "<!-- map: begin -->", "<!-- map: end -->"


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0]
    return sentence.rstrip(".:").replace("|", "\\|")


def module_map() -> str:
    """A table for each package: its files and what each does."""
    lines = []
    packages = sorted({path.parent for path in PACKAGE.rglob("*.py")}, key=str)
    for package in packages:
        name = str(package.relative_to(PACKAGE.parent))
        lines += ["", f"### `{name}/`", "", first_sentence(package / "__init__.py") + "."]
        lines += ["", "| file | what it does |", "|---|---|"]
        for path in sorted(package.glob("*.py")):
            if path.stem != "__init__":
                link = f"../{path.relative_to(ROOT)}"
                lines.append(f"| [`{path.name}`]({link}) | {first_sentence(path)} |")
    return "\n".join([BEGIN, *lines, "", END])


def with_map(page: str) -> str:
    """The page with its map replaced by one of the code as it is."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + module_map() + after


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(with_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(module_map())
