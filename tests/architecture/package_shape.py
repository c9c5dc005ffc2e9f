"""What the tests of the package's shape measure: lines, functions, importers, chains of imports."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "untold"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> str:
    """Such as `training/trainer.py`."""
    return path.relative_to(PACKAGE).as_posix()


def module_name(path: Path) -> str:
    """Such as `untold.training.trainer`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in SOURCES}


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def lines(path: Path) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in text(path).split("\n"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def function_lines(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Of a command the body alone: its arguments are as many as its users need options."""
    first = node.body[0] if path.parent.name == "commands" else node
    return (node.end_lineno or 0) - first.lineno + 1


def imported(node: ast.AST) -> set[str]:
    """The own modules that a statement imports."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("untold"):
        return set()
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in MODULES else str(node.module) for name in names}


def imports(path: Path) -> set[str]:
    """Own modules that a module imports, wherever in it, or names for its registry to import."""
    found = set().union(*(imported(node) for node in ast.walk(tree(path))))
    words = {
        node.value.partition(":")[0]
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return (found | (words & MODULES.keys())) - {module_name(path)}


@cache
def importers() -> dict[str, set[str]]:
    found = defaultdict(set)
    for path in SOURCES:
        for name in imports(path):
            found[name].add(place(path))
    return found


def _at_once(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: no bodies of functions, nothing for types alone."""
    for child in ast.iter_child_nodes(node):
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        if not for_types and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
            yield from _at_once(child)


@cache
def longest_chain(name: str) -> tuple[str, ...]:
    """The longest chain of modules that importing one imports in turn."""
    nodes = _at_once(tree(MODULES[name]))
    others = set().union(*(imported(node) for node in nodes)) & MODULES.keys() - {name, "untold"}
    return (name, *max(map(longest_chain, sorted(others)), key=len, default=()))
