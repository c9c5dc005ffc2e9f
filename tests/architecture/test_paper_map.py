"""The names and paths of docs/paper-map.md exist."""

import importlib
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "src/untold"
_PAGE = (_ROOT / "docs/paper-map.md").read_text(encoding="utf-8")
_QUOTED = sorted(set(re.findall(r"`([^`]+)`", _PAGE)))
_PACKAGES = {each.stem for each in _PACKAGE.iterdir() if each.suffix == ".py" or each.is_dir()}
_NAMES = [
    each
    for each in _QUOTED
    if re.fullmatch(r"\w+(\.\w+)+", each) and each.split(".")[0] in _PACKAGES
]
_PATHS = [each for each in _QUOTED if each.startswith(("tests/", "configs/"))]


def _resolve(name: str) -> object:
    """Imports the longest prefix that is a module and looks up the rest in it."""
    parts = name.split(".")
    depth = len(parts)
    while depth and not _is_module(parts[:depth]):
        depth -= 1
    found: object = importlib.import_module(".".join(["untold", *parts[:depth]]))
    for part in parts[depth:]:
        found = getattr(found, part)
    return found


def _is_module(parts: list[str]) -> bool:
    path = _PACKAGE.joinpath(*parts)
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("name", _NAMES)
def test_every_name_of_the_paper_map_resolves(name: str) -> None:
    assert _resolve(name) is not None


@pytest.mark.parametrize("path", _PATHS)
def test_every_path_of_the_paper_map_exists(path: str) -> None:
    file, _, test = path.partition("::")
    assert (_ROOT / file).exists()
    if test:
        assert re.search(rf"def {test}\b", (_ROOT / file).read_text(encoding="utf-8"))


def test_every_row_of_the_paper_map_names_code_and_a_test() -> None:
    rows = [line for line in _PAGE.split("\n") if line.startswith("|")][2:]
    assert len(rows) > 30
    for row in rows:
        _, code, tests = re.split(r"(?<!\\)\|", row)[1:-1]
        assert any(f"`{name}`" in code for name in _NAMES), f"no code: {row}"
        assert any(f"`{path}`" in tests for path in _PATHS), f"no test: {row}"


def test_a_wrong_name_does_not_resolve() -> None:
    with pytest.raises(AttributeError):
        _resolve("models.transformer.Transformer.no_such_method")
