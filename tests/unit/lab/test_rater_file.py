"""Sheets that raters filled in: saved by any program, with mistakes that are named."""

import csv
import io

import pytest

from untold.errors import UntoldError
from untold.lab.sheets import (
    GUARD,
    Rating,
    SheetTexts,
    draw_sheet,
    key_json,
    read_key,
    read_rater_file,
    sheet_csv,
)

TEXTS = SheetTexts(["eins", "=zwei", "drei"], {"a": ["one", "=two", ""], "b": ["1", "2", "-3"]})
SHEET = draw_sheet(TEXTS, 3, 1)
QUALITY, OVER, UNDER, COMMENT = 4, 5, 6, 7


@pytest.fixture
def key(tmp_path):
    (tmp_path / "key.json").write_bytes(key_json(SHEET))
    return read_key(tmp_path / "key.json")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ann.csv"


def table():
    """The cells of the sheet as it was exported, with the header."""
    return list(csv.reader(io.StringIO(sheet_csv(SHEET).decode("utf-8-sig"), newline="")))


def filled(*changes):
    """The sheet with (line, column, text) filled in; line 1 is the header."""
    cells = table()
    for line, column, text in changes:
        cells[line - 1][column] = text
    return cells


def save(path, cells, delimiter=",", encoding="utf-8-sig", end="\r\n"):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows(cells)
    path.write_bytes(text.getvalue().encode(encoding))


def test_ratings_are_read_by_row(path, key):
    save(
        path,
        filled(
            (2, QUALITY, "4"),
            (3, QUALITY, "1"),
            (3, OVER, "one"),
            (4, QUALITY, "5"),
            (4, UNDER, "zwei"),
        ),
    )
    found = read_rater_file(path, key)
    assert found.name == "ann.csv"
    assert found.ratings == {
        "r1-A": Rating(4, False, False),
        "r1-B": Rating(1, True, False),
        "r2-A": Rating(5, False, True),
    }
    assert (found.half_filled, found.shifted) == (0, ())


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_whatever_a_program_made_of_the_file_is_read(path, key, delimiter, encoding, end):
    save(
        path,
        filled((2, QUALITY, "4"), (3, QUALITY, "3"), (3, COMMENT, "a; b, c\td")),
        delimiter,
        encoding,
        end,
    )
    assert {row: each.quality for row, each in read_rater_file(path, key).ratings.items()} == {
        "r1-A": 4,
        "r1-B": 3,
    }


@pytest.mark.parametrize("text", ["3", " 3 ", "3.0", "3,00", f"{GUARD}3"])
def test_ways_to_write_a_grade(path, key, text):
    save(path, filled((2, QUALITY, text)))
    assert read_rater_file(path, key).ratings["r1-A"].quality == 3


@pytest.mark.parametrize("text", ["", " ", "0", "-", "–", f"{GUARD}-"])
def test_ways_to_say_that_no_word_is_wrong(path, key, text):
    save(path, filled((2, QUALITY, "3"), (2, OVER, text), (2, UNDER, f"{text}x")))
    assert read_rater_file(path, key).ratings["r1-A"] == Rating(3, False, True)


@pytest.mark.parametrize("column", [OVER, UNDER, COMMENT])
def test_a_half_filled_row_is_skipped_and_counted(path, key, column):
    save(path, filled((2, QUALITY, "3"), (3, column, "x"), (4, column, "y")))
    found = read_rater_file(path, key)
    assert (list(found.ratings), found.half_filled) == (["r1-A"], 2)


def test_columns_and_rows_in_another_order_and_lacking_ones_do_not_matter(path, key):
    cells = filled((2, QUALITY, "2"), (5, QUALITY, "4"))
    names = {row[1]: row[QUALITY] for row in cells[1:] if row[QUALITY]}
    chosen = [QUALITY, UNDER, OVER, 1, 0]  # no texts, no comment
    header, *rows = [[row[place] for place in chosen] for row in cells]
    save(path, [[name.upper() for name in header], *rows[::-1], ["", " ", "", "", ""], []])
    found = read_rater_file(path, key)
    assert {row: str(each.quality) for row, each in found.ratings.items()} == names
    assert found.shifted == ()


def test_a_column_that_was_sorted_by_itself_is_noticed(path, key):
    cells = filled(*((line, QUALITY, "3") for line in range(2, 8)))
    column = sorted(row[3] for row in cells[1:])
    for row, text in zip(cells[1:], column, strict=True):
        row[3] = text
    save(path, cells)
    both = zip(table(), cells, strict=True)
    moved = [line for line, (old, new) in enumerate(both, start=1) if old[3] != new[3]]
    assert moved and read_rater_file(path, key).shifted == tuple(moved)


def test_a_comment_may_have_several_lines(path, key):
    save(path, filled((2, QUALITY, "3"), (2, COMMENT, "a\nb"), (3, QUALITY, "7")))
    with pytest.raises(UntoldError, match=r"ann.csv:4: the quality 7"):
        read_rater_file(path, key)


MISTAKES = {
    "a grade that is too high": (
        filled((4, QUALITY, "7")),
        r":4: the quality 7 must be a whole number from 1 to 5: correct",
    ),
    "a grade of zero": (filled((4, QUALITY, "0")), r":4: the quality 0 must be a whole"),
    "a half": (filled((4, QUALITY, "3.5")), r":4: the quality 3.5 must be a whole"),
    "a word": (filled((4, QUALITY, "good")), r":4: the quality good must be a whole"),
    "a formula": (filled((4, QUALITY, "=2+2")), r":4: the quality =2\+2 must be a whole"),
    "an escape": (filled((4, QUALITY, "\x1b[2J")), r":4: the quality \\x1b\[2J must"),
    "other digits": (filled((4, QUALITY, "٤")), r":4: the quality ٤ must"),
    "a row twice": ([*table(), table()[2]], r":8: the row r1-B stands on line 3, too: remove one"),
    "an unknown row": (filled((3, 1, "r9-A")), r":3: the row r9-A is not in the key: restore"),
    "no row": (filled((3, 1, "")), r":3: the row \(none\) is not in the key"),
    "another sheet": (
        filled((3, 0, "sabc")),
        rf":3: is of the sheet sabc, but the key is of {SHEET.name}: name",
    ),
    "no sheet": (filled((3, 0, "")), r":3: is of the sheet \(none\), but the key"),
    "nothing filled in": (table(), r"ann.csv: no row has a quality: fill in some"),
    "a header alone": (table()[:1], r"ann.csv: no row has a quality"),
    "too many cells": (
        [*table()[:2], [*table()[2], "x"]],
        r":3: has 9 cells, but there are 8 columns: put",
    ),
    **{
        f"no column {name}": (
            [
                [cell for place, cell in enumerate(row) if table()[0][place] != name]
                for row in table()
            ],
            rf":1: the column {name} is missing, the columns are .*: restore the first line",
        )
        for name in ("sheet", "row", "quality", "over-translated words", "under-translated words")
    },
    "a column twice": (
        [["sheet", *row] for row in table()],
        r":1: the column sheet stands there twice",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_file_line_value_and_cure(path, key, name):
    cells, words = MISTAKES[name]
    save(path, cells)
    with pytest.raises(UntoldError, match=words) as caught:
        read_rater_file(path, key)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty: name a sheet"),
        (b"\xff\xfes\x00", ":1:1: byte 0xff is not UTF-8"),
        (b'"sheet', ":1: is no table of comma-separated values"),
        (b"\xef\xbb\xbf\n", ":1: the column sheet is missing"),
        (b"sheet\rrow\r", ":1: is no table"),
        (b"PK\x03\x04", ":1: the column sheet is missing"),
        (b"sheet" * 40_000, ":1: is no table"),
        (
            b"sheet,row,quality,over-translated words,under-translated words\n" + b'"s"x,1\n',
            ":2: is no table",
        ),
    ],
)
def test_files_that_are_no_tables_are_refused(path, key, data, words):
    path.write_bytes(data)
    with pytest.raises(UntoldError, match=words):
        read_rater_file(path, key)
