"""The key of an adequacy sheet: which system and which line of the source each row comes from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from untold.corpus.lines import open_bytes
from untold.errors import UntoldError
from untold.evaluation.adequacy_sheet.sheet_drawing import Sheet

__all__ = ["KeyRow", "SheetKey", "key_json", "read_key"]

_FORMAT = 1
# What Python raises at JSON that is cut, or whose values are missing or strange.
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True)
class KeyRow:
    """The origin of a row, and a hash of its translation, to notice rows that were shifted."""

    system: str
    line: int
    text: str

    def has_text(self, translation: str) -> bool:
        """Returns True if this is the translation that was to be rated, but for blanks."""
        return self.text == _hash(translation)


@dataclass(frozen=True)
class SheetKey:
    """The key of one sheet: its systems in the order in which they were given, and its rows."""

    sheet: str
    systems: tuple[str, ...]
    rows: Mapping[str, KeyRow]


def key_json(sheet: Sheet) -> bytes:
    """Writes the key of a sheet."""
    rows = {row.name: KeyRow(row.system, row.line, _hash(row.translation)) for row in sheet.rows}
    values = {
        "format": _FORMAT,
        "sheet": sheet.name,
        "seed": sheet.seed,
        "systems": list(sheet.systems),
        "rows": {name: asdict(row) for name, row in rows.items()},
    }
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()


def read_key(path: Path) -> SheetKey:
    """Reads a key; anything else is an error that says what to name instead."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        return _parse(json.loads(data))
    except _DAMAGE:
        raise UntoldError(
            f"{path}: is no key of untold sheet, or it is damaged: name the key.json that was "
            "written with the sheet"
        ) from None


def _parse(values: Any) -> SheetKey:
    systems = tuple(values["systems"])
    rows = {name: KeyRow(**fields) for name, fields in values["rows"].items()}
    parts = [values["sheet"], *systems, *(part for row in rows.values() for part in _texts(row))]
    lines = [row.line for row in rows.values()]
    is_whole = all(isinstance(part, str) for part in parts) and all(
        type(line) is int and line > 0 for line in lines
    )
    known = {row.system for row in rows.values()}
    if values["format"] != _FORMAT or not is_whole or not rows or known != set(systems):
        raise ValueError
    places = {(row.system, row.line) for row in rows.values()}
    if len(places) != len(rows) or len(set(systems)) != len(systems):
        raise ValueError
    return SheetKey(values["sheet"], systems, rows)


def _texts(row: KeyRow) -> tuple[str, str]:
    return row.system, row.text


def _hash(text: str) -> str:
    """Hashes a text without its blanks and invisible signs, which programs add and drop."""
    seen = "".join(sign for sign in text if sign.isprintable() and not sign.isspace())
    return hashlib.sha256(seen.encode()).hexdigest()[:16]
