"""docs/extend.md, "A corpus format", is followed literally: its format is registered and read."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from untold.config import CorpusConfig
from untold.corpus.corpora import (
    CORPUS_FORMATS,
    Pair,
    fingerprint_corpus,
    read_jsonl,
    read_pairs,
    read_parquet,
    read_tsv,
)
from untold.errors import UntoldError
from untold.lab.paper_data import read_lcsts

PAGE = (Path(__file__).parents[3] / "docs" / "extend.md").read_text(encoding="utf-8")
GUIDE = (Path(__file__).parents[3] / "docs" / "guide.md").read_text(encoding="utf-8")
RECIPE = PAGE.partition("## A corpus format")[2].partition("\n## ")[0]
FORMAT, REGISTRATION = re.findall(r"```python\n(.*?)```", RECIPE, re.DOTALL)
(ENTRY_POINT,) = re.findall(
    r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)```", RECIPE, re.S
)

DATA = b'en,n,de\n"a cat, a dog",1,"eine Katze, ein Hund"\nit,2,"es\nist"\n'
CORPUS = CorpusConfig(path="memory.csv", columns=("en", "de"))
READ = [("a cat, a dog", "eine Katze, ein Hund", 1), ("it", "es ist", 2)]


@pytest.fixture
def registered():
    """Runs the page's code: defines the format and registers it."""
    exec(FORMAT + REGISTRATION, {"__name__": "notebook"})
    yield
    CORPUS_FORMATS.remove("csv")


def contents(corpus, root):
    return [(pair.source, pair.target, pair.line) for pair in read_pairs(corpus, root)]


def test_a_format_added_from_python_is_read_and_fingerprinted(tmp_path, registered):
    (tmp_path / "memory.csv").write_bytes(DATA)
    assert contents(CORPUS, tmp_path) == READ
    (tmp_path / "memory.csv.gz").write_bytes(gzip.compress(DATA))
    packed = CORPUS.model_copy(update={"path": "memory.csv.gz"})
    assert contents(packed, tmp_path) == READ
    first = fingerprint_corpus(CORPUS, tmp_path)
    assert fingerprint_corpus(packed, tmp_path) != first
    (tmp_path / "memory.csv").write_bytes(DATA.replace(b"cat", b"cow"))
    assert fingerprint_corpus(CORPUS, tmp_path) != first


def test_a_registered_format_checks_its_cells_and_columns(tmp_path, registered):
    (tmp_path / "memory.csv").write_bytes(DATA)
    with pytest.raises(UntoldError, match=r"memory\.csv:1: no column 'source', 'target'; set col"):
        contents(CorpusConfig(path="memory.csv"), tmp_path)
    (tmp_path / "memory.csv").write_bytes(b"en,de\na,\xff\n")
    with pytest.raises(UntoldError, match=r"memory\.csv:2:3: byte 0xff is not UTF-8"):
        contents(CORPUS, tmp_path)


@pytest.mark.parametrize(
    ("yielded", "message"),
    [
        (Pair("a", "b\ud800", 7, "t.toy"), r"t\.toy:7: lone surrogate U\+D800 at character 2"),
        (("a", "b"), r"corpus format toy yields tuple and not Pair: mend the format"),
    ],
)
def test_a_format_that_yields_nonsense_is_named(tmp_path, yielded, message):
    (tmp_path / "t.toy").write_bytes(b"")
    CORPUS_FORMATS.add("toy", lambda path, columns: iter([yielded]))
    try:
        with pytest.raises(UntoldError, match=message):
            contents(CorpusConfig(path="t.toy"), tmp_path)
        CORPUS_FORMATS.remove("toy")
        CORPUS_FORMATS.add("toy", lambda path, columns: iter([Pair("a\nb", "c", 1, "t.toy")]))
        assert contents(CorpusConfig(path="t.toy"), tmp_path) == [("a b", "c", 1)]
    finally:
        CORPUS_FORMATS.remove("toy")


SCRIPT = """
import json, pathlib, sys
from untold.config import CorpusConfig
from untold.lab.paper_data import read_lcsts
from untold.corpus.corpora import fingerprint_corpus, read_pairs
root = pathlib.Path(sys.argv[1])
corpus = CorpusConfig(path="memory.csv", columns=("en", "de"))
pairs = [(pair.source, pair.target, pair.line) for pair in read_pairs(corpus, root)]
print(json.dumps([pairs, fingerprint_corpus(corpus, root), "my_formats" in sys.modules]))
"""


def test_a_format_of_an_installed_package_is_found_by_its_entry_point(tmp_path, registered):
    group, line = ENTRY_POINT
    name, module, attribute = re.fullmatch(r'(\w+) = "(\w+):(\w+)"\n', line).groups()
    information = tmp_path / "site" / f"{module}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")
    (tmp_path / "site" / f"{module}.py").write_text(FORMAT)
    (tmp_path / "memory.csv").write_bytes(DATA)
    paths = [str(tmp_path / "site"), *sys.path]
    code = f"import sys; sys.path = {paths!r}\n{SCRIPT}"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    pairs, fingerprint, imported = json.loads(run.stdout)
    assert [tuple(pair) for pair in pairs] == READ
    assert fingerprint == fingerprint_corpus(CORPUS, tmp_path)
    assert imported


def test_the_built_in_formats_are_in_the_registry_and_on_the_page():
    assert CORPUS_FORMATS["tsv"] is read_tsv
    assert CORPUS_FORMATS["jsonl"] is read_jsonl
    assert CORPUS_FORMATS["parquet"] is read_parquet
    assert CORPUS_FORMATS["lcsts"] is read_lcsts
    for name in CORPUS_FORMATS.names:
        assert f'`path = "x.{name}"`' in GUIDE


KNOWN = r"a table is \.tsv, \.tsv\.gz, \.jsonl, \.jsonl\.gz, \.parquet"


@pytest.mark.parametrize("name", ["t.csv", "t", "t.gz", "t.parquet.gz"])
def test_an_unknown_suffix_gets_the_known_ones(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UntoldError, match=rf"{name}: {KNOWN} or \.lcsts; give plain text"):
        contents(CorpusConfig(path=name), tmp_path)


def test_an_unknown_suffix_gets_the_registered_ones_too(tmp_path, registered):
    (tmp_path / "t.cvs").write_bytes(b"")
    added = r"(\.csv or \.lcsts|\.lcsts or \.csv)"
    with pytest.raises(UntoldError, match=rf"{KNOWN}, {added}; give plain text"):
        contents(CorpusConfig(path="t.cvs"), tmp_path)
