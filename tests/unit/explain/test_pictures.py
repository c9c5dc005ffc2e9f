"""Which file is written for which suffix, and the layout of JSON."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from untold.errors import UntoldError
from untold.explain.explanation import Explanation
from untold.explain.table import print_explanations
from untold.explain.write import check_format, write_explanations

Make = Callable[..., Explanation]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.html", b"<!doctype html>"),
        ("x.JSON", b'{"layout": 1'),
        ("x.png", b"\x89PNG"),
        ("x.svg", b"<?xml"),
    ],
)
def test_the_suffix_decides(tmp_path: Path, by_formula: Make, name: str, start: bytes) -> None:
    write_explanations(tmp_path / name, [by_formula("a b", "A B")])
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing unfinished beside it


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.html.gz"])
def test_other_suffixes_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(UntoldError) as caught:
        check_format(path)
    assert repr(path.suffix) in str(caught.value)
    assert all(suffix in str(caught.value) for suffix in (".html", ".json", ".png", ".svg"))


def test_json_comes_back_as_it_was(tmp_path: Path, by_formula: Make) -> None:
    made = [by_formula("你 </script>", "you &", ("zh", "en")), by_formula("a b c", "C B A")]
    write_explanations(tmp_path / "x.json", made)
    document = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert document["layout"] == 1
    assert document["categories"] == ["past", "future", "redundant"]
    for record, explanation in zip(document["sentences"], made, strict=True):
        for side in ("source", "target"):
            expected = getattr(explanation, side)
            assert record[side]["text"] == expected.text
            assert record[side]["language"] == expected.language
            assert tuple(record[side]["words"]) == expected.words
        np.testing.assert_allclose(record["shares"], explanation.shares)
        assert record["flips"] == [vars(flip) for flip in explanation.flips]
        assert len(record["source_end"]) == len(record["shares"])


def test_no_explanations_are_an_error(tmp_path: Path) -> None:
    for show in (print_explanations, lambda nothing: write_explanations(tmp_path / "x", nothing)):
        with pytest.raises(UntoldError, match="explain at least one sentence"):
            show([])


def test_matplotlib_waits_until_a_picture_is_asked_for() -> None:
    code = "import sys, untold.explain.write as f; print('matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
