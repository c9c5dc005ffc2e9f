"""The cells of an adequacy sheet as comma-separated values that spreadsheet programs may open.

A cell that begins like a formula would be computed, and could even start a program. An invisible
character in front (a zero-width space) makes it plain text that a person reads as before.
"""

import csv
import io
import re

from untold.evaluation.adequacy_sheet.sheet_drawing import Sheet

__all__ = ["COLUMNS", "GUARD", "guard_cell", "sheet_csv", "unguard_cell"]

# The columns of a sheet; `reference` is left out where there is none.
COLUMNS = (
    *("sheet", "row", "source", "reference", "translation"),
    *("quality", "over-translated words", "under-translated words", "comment"),
)
GUARD = "\u200b"
# Formulas may follow blanks, and Chinese and Japanese programs also know signs of full width. A
# text that begins with the guard itself gets another one, so that undoing gives every text back.
_RISKY = re.compile(f"{GUARD}|\\t|[\\s\ufeff]*[=+\\-@＝＋－＠]")


def guard_cell(text: str) -> str:
    """Returns the text with an invisible character in front if a program might compute it."""
    return GUARD + text if _RISKY.match(text) else text


def unguard_cell(text: str) -> str:
    """Returns the text that was guarded."""
    return text.removeprefix(GUARD)


def sheet_csv(sheet: Sheet) -> bytes:
    """Writes a sheet to fill: UTF-8 with the mark by which spreadsheet programs recognise it."""
    has_reference = any(row.reference is not None for row in sheet.rows)
    columns = [name for name in COLUMNS if has_reference or name != "reference"]
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(columns)
    for row in sheet.rows:
        cells = {
            "sheet": sheet.name,
            "row": row.name,
            "source": guard_cell(row.source),
            "reference": guard_cell(row.reference or ""),
            "translation": guard_cell(row.translation),
        }
        writer.writerow([cells.get(name, "") for name in columns])
    return text.getvalue().encode("utf-8-sig")
