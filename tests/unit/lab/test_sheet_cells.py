"""Cells that spreadsheet programs show and do not compute, and that can be read back."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from untold.lab.sheets import (
    COLUMNS,
    GUARD,
    SheetTexts,
    draw_sheet,
    guard_cell,
    sheet_csv,
    unguard_cell,
)

RISKY = ["=1+1", "+1", "-1", "@x", "\tx", "  =1", "\t=1", "＝1", "＋1", "－1", "＠x", "\ufeff=1"]
HARMLESS = ["", "a", "a=1", "1-2", "'=1", " a", "«=»", "。"]


@pytest.mark.parametrize("text", RISKY)
def test_a_cell_that_might_be_computed_gets_an_invisible_sign(text):
    assert guard_cell(text) == GUARD + text
    assert len(GUARD) == 1 and not GUARD.isprintable() and not GUARD.isspace()


@pytest.mark.parametrize("text", HARMLESS)
def test_other_cells_stay_as_they_are(text):
    assert guard_cell(text) == text


@given(st.text(st.sampled_from("=+-@\t a\u200b＝\ufeff")) | st.text())
@example(GUARD)
@example(GUARD * 2 + "=")
def test_the_guard_is_undone_exactly_and_no_guarded_cell_begins_a_formula(text):
    guarded = guard_cell(text)
    assert unguard_cell(guarded) == text
    assert guarded.strip().lstrip("\ufeff ")[:1] not in tuple("=+-@＝＋－＠")
    assert not guarded.startswith("\t")


def rows_of(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def test_a_sheet_has_a_mark_a_header_and_empty_cells_to_fill():
    given = SheetTexts(["a, b"], {"x": ['say "hi"']}, ["=ref"])
    data = sheet_csv(draw_sheet(given, 1, 1))
    assert data.startswith(b"\xef\xbb\xbf") and data.endswith(b"\r\n")
    header, row = rows_of(data)
    assert tuple(header) == COLUMNS
    assert row[1:] == ["r1-A", "a, b", f"{GUARD}=ref", 'say "hi"', "", "", "", ""]
    without = rows_of(sheet_csv(draw_sheet(SheetTexts(["a"], {"x": ["b"]}), 1, 1)))
    assert without[0] == [name for name in COLUMNS if name != "reference"]


LINES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r"))


@given(LINES, LINES)
def test_every_text_is_one_cell(source, translation):
    sheet = draw_sheet(SheetTexts([f"x{source}"], {"x": [translation]}), 1, 1)
    _, row = rows_of(sheet_csv(sheet))
    assert [unguard_cell(cell) for cell in row[2:4]] == [
        sheet.rows[0].source,
        sheet.rows[0].translation,
    ]


def test_nothing_that_a_rater_gets_names_a_system():
    names = ("secret-system", "other-secret")
    sheet = draw_sheet(SheetTexts(["a"], {name: ["b"] for name in names}), 1, 1)
    assert b"secret" not in sheet_csv(sheet)
