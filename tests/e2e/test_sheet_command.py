"""`untold sheet` from texts to figures, with good and with bad input."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.in_process import Ended, run_in_process
from untold.files import verify_directory

SOURCES = [f"Satz {n}" for n in range(12)]
SYSTEMS = {"plain": [f"sentence {n}" for n in range(12)], "gdr": [f"=good {n}" for n in range(12)]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"src": SOURCES, "plain": SYSTEMS["plain"], "gdr": SYSTEMS["gdr"]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def export(folder: Path, *more: object, number: int = 8) -> Ended:
    systems = ("--system", "plain=plain", "--system", "gdr=gdr")
    line = ("sheet", "--source", "src", *systems, "--number", number, "--out", "new", *more)
    return run_in_process(line, folder)


def rate(folder: Path, name: str, grade, rows=None) -> None:
    """Fills in the sheet as a rater would who knows nothing but the texts."""
    text = (folder / "new" / "raters" / "sheet.csv").read_text(encoding="utf-8-sig")
    header, *cells = csv.reader(io.StringIO(text, newline=""))
    for row in cells[:rows]:
        given = dict(zip(header, row, strict=True))
        row[header.index("quality")] = grade(given["translation"])
        over = header.index("over-translated words")
        row[over] = "again" if "sentence" in given["translation"] else "0"
    out = io.StringIO()
    csv.writer(out).writerows([header, *cells])
    (folder / name).write_text(out.getvalue(), encoding="utf-8")


def aggregate(folder: Path, *more: object) -> Ended:
    return run_in_process(("sheet", "--aggregate", "new/key.json", *more), folder)


def test_from_texts_to_figures(folder):
    ended = export(folder, "--reference", "src")
    assert ended.code == 0, ended.errors
    assert "8 sources by 2 systems" in ended.output and "keep new/key.json" in ended.output
    verify_directory(folder / "new")
    rate(folder, "ann.csv", lambda text: "5" if "good" in text else "3")
    rate(folder, "bo.csv", lambda text: "4" if "good" in text else "2")
    ended = aggregate(folder, "ann.csv", "bo.csv", "--json")
    assert ended.code == 0 and not ended.errors, ended.errors
    record = json.loads(ended.output)
    plain, gdr = record["systems"]
    assert (plain["name"], plain["quality"]["mean"], plain["over"]) == ("plain", 2.5, 1.0)
    assert (gdr["name"], gdr["quality"]["mean"], gdr["over"]) == ("gdr", 4.5, 0.0)
    (pair,) = record["pairs"]
    assert pair["quality"]["interval"]["mean"] == 2.0
    assert pair["quality"]["test"] == {"p": 2 / 2**8, "patterns": 256, "is_exact": True}
    assert record["agreement"]["over"] == 1.0 and 0 < record["agreement"]["alpha"] < 1
    shown = aggregate(folder, "ann.csv", "bo.csv")
    assert shown.code == 0 and "+2.00 (p = 0.0078)" in shown.output
    assert "bo.csv: 16 of 16 translations rated" in shown.output


def test_nothing_for_raters_tells_which_system_is_which(folder):
    assert export(folder).code == 0
    for path in (folder / "new" / "raters").iterdir():
        text = path.read_text(encoding="utf-8")
        assert "plain" not in text.replace("plaintext", "") and "gdr" not in text
    assert "gdr" in (folder / "new" / "key.json").read_text()


def test_the_same_command_gives_the_same_bytes_and_another_seed_others(folder):
    made = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        assert export(folder, "--out", name, "--seed", seed).code == 0
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        made.append([path.read_bytes() for path in files])
    assert made[0] == made[1]
    assert all(one != other for one, other in zip(made[0], made[2], strict=True))


def test_a_rater_who_did_a_part_is_counted_and_shifted_rows_are_told(folder):
    assert export(folder).code == 0
    rate(folder, "ann.csv", lambda text: "3", rows=6)
    text = (folder / "ann.csv").read_text().replace("sentence", "other")
    (folder / "ann.csv").write_text(text)
    ended = aggregate(folder, "ann.csv")
    assert ended.code == 0 and "ann.csv: 6 of 16 translations rated" in ended.output
    assert "ann.csv: 8 rows have another translation than the sheet, the first on" in ended.errors


def test_a_copy_of_a_file_is_told(folder):
    assert export(folder).code == 0
    for name, grade in (("ann.csv", "3"), ("bo.csv", "4"), ("copy.csv", "3")):
        rate(folder, name, lambda text, grade=grade: grade)
    ended = aggregate(folder, "ann.csv", "bo.csv", "copy.csv")
    assert ended.code == 0
    assert ended.errors == "copy.csv: has the very ratings of ann.csv: is it a copy?\n"


EXPORT = ("sheet", "--source", "src", "--system", "a=plain", "--out", "new")
MISTAKES = {
    "nothing": (("sheet",), "sheet needs --source, --system and --out"),
    "no system": (("sheet", "--source", "src", "--out", "new"), "sheet needs --source, --system"),
    "no out": (EXPORT[:-2], "sheet needs --source, --system and --out"),
    "too many": (EXPORT, "--number 200: the source has 12 lines that are not blank"),
    "none": ((*EXPORT, "--number", 0), "must be a whole number from 1 to 100,000"),
    "no name": ((*EXPORT, "--system", "plain"), "--system plain: write it as NAME=FILE"),
    "blank name": ((*EXPORT, "--system", " =plain"), "write it as NAME=FILE"),
    "no file": ((*EXPORT, "--system", "b="), "--system b=: write it as NAME=FILE"),
    "a name twice": ((*EXPORT, "--system", "a=gdr"), "there is another a: rename"),
    "a missing file": ((*EXPORT, "--system", "b=none"), "none: No such file"),
    "too many systems": (
        (*EXPORT, *(word for n in range(26) for word in ("--system", f"s{n}=gdr"))),
        "27 systems: a sheet has at most 26: name fewer",
    ),
    "other counts": ((*EXPORT, "--system", "b=long"), "long has 13 lines and src has 12: line by"),
    "other reference": ((*EXPORT, "--reference", "long"), "long has 13 lines and src has 12"),
    "a return": ((*EXPORT, "--system", "b=return"), "return:3: has a line end"),
    "there already": ((*EXPORT, "--number", 2, "--out", "old"), "old: already exists; remove it"),
    "no ratings": (("sheet", "--aggregate", "src"), "name a file of each rater"),
    "no key": (("sheet", "--aggregate", "src", "gdr"), "src: is no key of untold sheet"),
    "no such key": (("sheet", "--aggregate", "none", "gdr"), "none: No such file"),
    "no such ratings": (("sheet", "--aggregate", "old/key.json", "none"), "none: No such file"),
    "a file twice": (("sheet", "--aggregate", "old/key.json", "gdr", "./gdr"), "is named twice"),
    "no table": (("sheet", "--aggregate", "old/key.json", "gdr"), "gdr:1: the column sheet is"),
    "not filled in": (
        ("sheet", "--aggregate", "old/key.json", "old/raters/sheet.csv"),
        "sheet.csv: no row has a quality: fill in some, from 1 to 5",
    ),
    "another key": (
        ("sheet", "--aggregate", "other/key.json", "old/raters/sheet.csv"),
        "sheet.csv:2: is of the sheet s",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line_with_a_cure(folder, name):
    (folder / "long").write_text("x\n" * 13)
    (folder / "return").write_text("x\n" * 2 + "a\rb\n" + "x\n" * 9, newline="")
    assert export(folder, "--out", "old", "--seed", 1).code == 0
    assert export(folder, "--out", "other", "--seed", 2).code == 0
    arguments, words = MISTAKES[name]
    ended = run_in_process(arguments, folder)
    assert (ended.code, ended.output) == (2, "")
    assert words in ended.errors and ended.errors.count("\n") == 1
    assert not (folder / "new").exists()


RUN = """
import sys
from untold.__main__ import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def test_a_sheet_is_made_without_torch(folder):
    assert export(folder).code == 0
    rate(folder, "ann.csv", lambda text: "3")
    texts = ("--source", "src", "--system", "a=gdr", "--number", "2", "--out", "quick")
    for line in (texts, ("--aggregate", "new/key.json", "ann.csv")):
        command = [sys.executable, "-c", RUN, "sheet", *line]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert run.stdout.strip().endswith("False")
