"""Registries: shipped parts, parts from entry points, and what a wrong name gets."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from untold import registry as module
from untold.errors import UntoldError
from untold.registry import Registry

SHIPPED = {"lines": "untold.corpus.text:read_lines", "errors": "untold.errors:UntoldError"}


@pytest.fixture
def parts() -> Registry:
    return Registry("part", "untold.parts", SHIPPED)


def test_a_shipped_part_is_imported_when_asked_for(parts):
    assert parts["errors"] is UntoldError
    assert parts.names == ("lines", "errors")
    assert "lines" in parts
    assert "nothing" not in parts


def test_an_unknown_name_gets_the_nearest_and_all_known_ones(parts):
    with pytest.raises(
        UntoldError, match=r"unknown part line; did you mean lines\?; known: lines, e"
    ):
        parts["line"]


def test_a_part_added_from_python_is_found_until_it_is_removed(parts):
    parts.add("mine", sys)
    assert parts["mine"] is sys
    assert parts.names[-1] == "mine"
    parts.remove("mine")
    assert "mine" not in parts
    with pytest.raises(UntoldError, match="unknown part mine"):
        parts["mine"]


def test_a_shipped_name_cannot_be_taken(parts):
    with pytest.raises(UntoldError, match="lines is shipped with untold"):
        parts.add("lines", sys)


def test_entry_points_add_parts_and_a_broken_one_says_so(parts, monkeypatch):
    points = [
        EntryPoint("json", "json:dumps", "untold.parts"),
        EntryPoint("gone", "no_such_package:thing", "untold.parts"),
    ]
    monkeypatch.setattr(module, "entry_points", lambda group: points)
    assert parts.names == ("lines", "errors", "json", "gone")
    assert parts["json"]({}) == "{}"
    with pytest.raises(UntoldError, match="part gone: the entry point no_such_package:thing"):
        parts["gone"]


def test_importing_registries_imports_no_part():
    code = "import sys, untold.registry; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
