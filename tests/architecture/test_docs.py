"""The documentation says what is true: names, files, links, examples, and the paper map."""

import ast
import importlib
import re

import pytest

from architecture.package_shape import PACKAGE, ROOT

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
PARTS = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
_, _, PAPER_MAP = TEXTS["reproduce.md"].partition("## Paper map")
ROWS = [line for line in PAPER_MAP.split("\n") if line.startswith("|")][2:]


def resolve(name):
    """The thing that `package.module.name` stands for below untold."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["untold", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def unresolved(names):
    missing = []
    for name in names:
        try:
            resolve(name)
        except AttributeError:
            missing.append(name)
    return missing


def code_names(text):
    """Such as `models.seq2seq.Seq2Seq` of the package."""
    quoted = re.findall(r"`(\w+(?:\.\w+)+)`", text)
    return [name for name in quoted if name.split(".")[0] in PARTS]


def test_everything_in_the_flow_of_data_exists():
    (diagram,) = re.findall(r"```text\n(.*?)```", TEXTS["architecture.md"], re.DOTALL)
    names = re.findall(r"[a-z_]+(?:\.[A-Za-z_0-9]+)+", diagram)
    assert not unresolved(names), unresolved(names)


def test_every_row_of_the_paper_map_names_code_that_exists():
    assert len(ROWS) >= 30
    assert not [row for row in ROWS if not code_names(row)]
    assert not unresolved(code_names(PAPER_MAP)), unresolved(code_names(PAPER_MAP))


def test_a_name_that_does_not_exist_is_noticed():
    assert unresolved(["corpus.batching.no_such_thing", "no_such_module", "cli.main"]) == [
        "corpus.batching.no_such_thing",
        "no_such_module",
    ]


def test_packages_of_the_map_are_those_of_the_code():
    _, _, table = TEXTS["architecture.md"].partition("## Packages")
    named = set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE))
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"embedded"}
    assert named == packages


def test_the_index_lists_every_page_and_so_does_the_site():
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = [page.name for page in DOCS if page.name != "index.md"]
    assert not [name for name in pages if f"]({name})" not in TEXTS["index.md"]]
    assert not [name for name in pages if f'"{name}"' not in site]


def test_links_between_files_lead_somewhere():
    dead = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", TEXTS[page.name], flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if not re.match(r"\w+://|mailto:", target) and not (page.parent / target).exists():
                dead.append((page.name, target))
    assert not dead, dead


def test_files_that_are_named_exist():
    """Such as `training/trainer.py`."""
    pattern = r"`((?:src/untold/|benchmarks/|configs/|tests/)?[\w/]+\.(?:py|toml))`"
    dead = [
        (page.name, name)
        for page in PAGES
        for name in re.findall(pattern, TEXTS[page.name])
        if "/" in name
        and not any((folder / name).exists() for folder in (ROOT, PACKAGE, page.parent))
    ]
    assert not dead, dead


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_examples_import_what_exists():
    """Every `from untold.x import a, b` of an example in Python."""
    dead = []
    for page, text in TEXTS.items():
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("untold"):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                    dead += [(page, name) for name in unresolved(n[7:] for n in names)]
    assert not dead, dead


def test_the_readme_is_a_first_page():
    lines = TEXTS["README.md"].split("\n")
    assert len(lines) <= 110
    assert any(line.startswith("![") for line in lines), "it shows a picture"
