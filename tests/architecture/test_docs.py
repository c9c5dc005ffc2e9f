"""The documentation says what is true: the map, the way of the data, links, and the index."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from architecture.module_map import PAGE, with_map

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def test_the_map_is_that_of_the_code():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_map(page), "run: python tests/architecture/module_map.py --write"


def resolve(name: str) -> object:
    """The thing that `package.module.name` stands for below untold."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(["untold", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def test_everything_on_the_way_of_the_data_exists():
    (diagram,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names = re.findall(r"[a-z_]+(?:\.[A-Za-z_0-9]+)+", diagram)
    assert len(names) > 15
    for name in names:
        assert resolve(name) is not None, name


def test_a_name_that_does_not_exist_is_noticed():
    with pytest.raises(AttributeError):
        resolve("corpus.batching.no_such_thing")


def test_the_index_lists_every_page_and_so_does_the_site():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    for page in DOCS:
        if page.name != "index.md":
            assert f"]({page.name})" in index, f"docs/index.md does not list {page.name}"
        assert f'"{page.name}"' in site, f"zensical.toml does not list {page.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


# experiments.md is a diary: it names files as they were called at the time.
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "experiments.md"], ids=lambda page: page.name
)
def test_files_that_are_named_exist(page):
    """Such as `training/trainer.py`."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(
        r"`((?:src/untold/|benchmarks/|configs/|tests/)?[\w/]+\.(?:py|toml))`", text
    ):
        places = (ROOT / name, ROOT / "src" / "untold" / name, page.parent / name)
        found = any(place.exists() for place in places)
        assert found or "/" not in name, f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_import_what_exists(page):
    """Every `from untold.x import a, b` of an example in Python."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "untold":
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{page.name}: {alias.name}"


def test_the_readme_is_a_first_page():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")
    assert len(lines) <= 110
    assert any(line.startswith("![") for line in lines), "it shows a picture"
