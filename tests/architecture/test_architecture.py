"""The shape of the package: what it exports, how long its parts are, what may not occur."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "untold").rglob("*.py"))
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCES
]


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def constants_classes_functions(name: str) -> tuple[int, str]:
    """The order in which ruff sorts __all__."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def public_definitions(module: ast.Module) -> set[str]:
    """Functions and classes that a module defines under a name without underscore."""
    definitions = [n for n in module.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    return {node.name for node in definitions if not node.name.startswith("_")}


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_every_name_exists(name: str) -> None:
    module = importlib.import_module(name)
    exported = list(getattr(module, "__all__", []))
    assert exported == sorted(exported, key=constants_classes_functions)
    assert all(hasattr(module, each) for each in exported)


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_whatever_other_modules_import_is_exported(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("untold."):
            home = importlib.import_module(str(node.module))
            for alias in node.names:
                assert alias.name in home.__all__, f"{node.module}.{alias.name} is not in __all__"


@pytest.mark.parametrize("name", MODULES)
def test_all_is_complete(name: str) -> None:
    path = SOURCES[MODULES.index(name)]
    if path.name != "__init__.py":
        exported = set(importlib.import_module(name).__all__)
        assert public_definitions(tree(path)) <= exported


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_files_are_rooms_not_halls(path: Path) -> None:
    assert len(path.read_bytes().split(b"\n")) <= 400


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_functions_are_short(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 45, f"{path.name}: {node.name} is long"


def test_no_import_cycles() -> None:
    graph = {
        name: {
            str(node.module)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("untold")
        }
        for name, path in zip(MODULES, SOURCES, strict=True)
        if name != "untold"
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for other in graph.get(name, ()):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize(
    "forbidden",
    [
        "torch.load(",
        "pickle",
        "yaml",
        "weights_only=False",
        ".splitlines()",
        "codecs.open(",
        "eval(",
    ],
)
def test_unsafe_loaders_and_line_splitters_do_not_occur(forbidden: str) -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8").replace(".eval()", "").replace("model.eval(", "")
        assert forbidden not in text, f"{path.name} uses {forbidden}"


def test_all_consoles_come_from_the_module_that_makes_them_safe() -> None:
    for path in SOURCES:
        if path.name != "safe_console.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"Console\(|rich import print|rich\.print", text), path.name


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_text_files_are_utf8_whatever_the_locale_says(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            named = {keyword.arg for keyword in node.keywords}
            if node.func.attr in ("read_text", "write_text"):
                assert "encoding" in named, f"{path.name}:{node.lineno} names no encoding"


def test_help_is_instant_because_torch_stays_out() -> None:
    code = "import sys, untold.cli, untold; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_the_public_face_is_small_and_complete() -> None:
    import untold

    assert len(untold.__all__) <= 12
    for name in untold.__all__:
        assert getattr(untold, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        untold.nonsense  # noqa: B018
