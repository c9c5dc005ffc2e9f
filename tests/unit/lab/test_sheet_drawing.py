"""Sheets: drawn by seed, shuffled for each source, and anonymous."""

import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.lab.sheets import KeyRow, SheetTexts, draw_sheet, key_json, read_key, read_sheet_texts


def texts(count, systems=("gdr", "plain", "rnmt"), reference=False):
    source = [f"source {n}" for n in range(count)]
    outputs = {name: [f"{name} output {n}" for n in range(count)] for name in systems}
    return SheetTexts(source, outputs, [f"gold {n}" for n in range(count)] if reference else None)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**63 - 1))
def test_every_drawn_source_has_each_system_once(count, number, systems, seed):
    names = [f"system {n}" for n in range(systems)]
    sheet = draw_sheet(texts(max(count, number), names), number, seed)
    assert len(sheet.rows) == number * systems
    assert len({row.name for row in sheet.rows}) == len(sheet.rows)
    lines = Counter(row.line for row in sheet.rows)
    assert len(lines) == number and set(lines.values()) == {systems}
    for place, row in enumerate(sheet.rows):
        item, letter = divmod(place, systems)
        assert row.name == f"r{item + 1}-{string.ascii_uppercase[letter]}"
        assert row.source == f"source {row.line - 1}"
        assert row.translation == f"{row.system} output {row.line - 1}"


def test_a_seed_fixes_the_sheet_and_another_one_changes_it():
    one, same, other = (draw_sheet(texts(50), 20, seed) for seed in (1, 1, 2))
    assert one == same
    assert one.name != other.name and one.rows != other.rows


def test_a_letter_means_no_system():
    """Each system has each letter about as often as any other."""
    sheet = draw_sheet(texts(300), 300, 1)
    counts = Counter((row.name[-1], row.system) for row in sheet.rows)
    assert len(counts) == 9 and min(counts.values()) > 70


def test_sources_are_drawn_from_the_whole_text():
    drawn = {row.line for row in draw_sheet(texts(1000), 100, 1).rows}
    assert min(drawn) < 100 and max(drawn) > 900


def test_blank_sources_are_not_drawn_and_too_many_are_refused():
    given = SheetTexts(["a", " ", "b", ""], {"x": ["1", "2", "3", "4"]})
    assert {row.line for row in draw_sheet(given, 2, 1).rows} == {1, 3}
    with pytest.raises(UntoldError, match="--number 3: the source has 2 lines that are not blank"):
        draw_sheet(given, 3, 1)


def test_control_characters_are_shown_and_tabs_stay():
    given = SheetTexts(["a\x1b[31m"], {"x": ["\tb\u202e"]}, ["c\x00"])
    (row,) = draw_sheet(given, 1, 1).rows
    assert (row.source, row.translation, row.reference) == ("a\\x1b[31m", "\tb\\u202e", "c\\x00")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "source").write_text("a\nb\n")
    (tmp_path / "one").write_text("A\nB\n")
    return tmp_path


def test_files_are_read_line_by_line(folder):
    found = read_sheet_texts(folder / "source", {"x": folder / "one"}, folder / "source")
    assert found == SheetTexts(["a", "b"], {"x": ["A", "B"]}, ["a", "b"])


@pytest.mark.parametrize("role", ["system", "reference"])
def test_another_number_of_lines_names_both_counts(folder, role):
    (folder / "long").write_text("A\nB\nC\n")
    names = {"system": ("long", "one"), "reference": ("one", "long")}[role]
    system, reference = (folder / name for name in names)
    with pytest.raises(UntoldError, match=r"long has 3 lines and .*source has 2: line by line"):
        read_sheet_texts(folder / "source", {"x": system}, reference)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A\nB\rC\n", r"one:2: has a line end \(\\r\) inside the line"),
        (f"A\n{'x' * 32_001}\n", "one:2: has 32,001 characters, but a cell"),
    ],
)
@pytest.mark.parametrize("role", ["source", "system", "reference"])
def test_lines_that_no_cell_can_hold_are_named(folder, role, text, words):
    (folder / "one").write_text(text, newline="")
    (folder / "good").write_text("A\nB\n")
    path = {
        name: folder / ("one" if name == role else "good")
        for name in ("source", "system", "reference")
    }
    with pytest.raises(UntoldError, match=words):
        read_sheet_texts(path["source"], {"x": path["system"]}, path["reference"])


def test_the_key_knows_every_row(tmp_path):
    sheet = draw_sheet(texts(9), 4, 1)
    (tmp_path / "key.json").write_bytes(key_json(sheet))
    key = read_key(tmp_path / "key.json")
    assert (key.sheet, key.systems) == (sheet.name, ("gdr", "plain", "rnmt"))
    assert {row.name: (row.system, row.line) for row in sheet.rows} == {
        name: (where.system, where.line) for name, where in key.rows.items()
    }
    for row in sheet.rows:
        assert key.rows[row.name].has_text(f" {row.translation.replace(' ', '  ')}\u200b")
        assert not key.rows[row.name].has_text(row.translation + "x")


def test_whatever_is_no_key_is_refused(tmp_path):
    """Cuts and changes of a good key, and other JSON."""
    good = key_json(draw_sheet(texts(3), 2, 1)).decode()
    wrong = ["", "{", "[]", "3", "null", "[" * 5000, '{"sheet": "s1"}', good[:-30], good[40:]]
    wrong += [good.replace('"format": 1', f'"format": {value}') for value in ("2", "null", "[]")]
    wrong += [good.replace('"gdr"', value) for value in ("3", "null", "{}", "[]", '"plain"')]
    wrong += [good.replace('"line"', '"lines"'), good.replace('"rows": {', '"rows": {"x": 3, ')]
    wrong += [good.replace('"line": ', '"line": -'), good.replace('"line": ', '"line": 1.')]
    wrong += [good.replace('"text": "', '"text": ["').replace('"\n  }', '"]\n  }')]
    path = tmp_path / "key.json"
    for text in wrong:
        assert text != good
        path.write_text(text)
        with pytest.raises(UntoldError, match=r"key.json: is no key of untold sheet"):
            read_key(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UntoldError, match="is no key of untold sheet"):
        read_key(path)
    path.write_text(good)
    assert isinstance(read_key(path).rows["r1-A"], KeyRow)
