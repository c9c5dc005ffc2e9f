"""Findings in the terminal: a line `file:line: ...` each, and both texts below with marks.

Marks repeat what colours say, so that the report can be read without colours.
"""

import re
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from untold.checking.check_records import marked_side, unit_name
from untold.errors import escape_controls
from untold.terminal.safe_console import console

__all__ = ["CheckTable", "record_lines"]

_OPEN, _CLOSE = ">>", "<<"
_LONGEST_NAME = 80  # characters; some files name a unit by its whole text
_STYLES = {"omission": "bold yellow", "addition": "bold magenta", "damage": "bold red"}
_LAYOUT = re.compile(r"[\n\r\t\v\f]")

Line = list[tuple[str, str]]  # parts with their styles


class CheckTable:
    """Prints records as they come; a terminal shows colours and obeys nothing in the texts."""

    def __init__(self) -> None:
        self._console = console()

    def print(self, record: Mapping[str, Any]) -> None:
        """Prints all findings of a segment, or a damaged place."""
        for line in record_lines(record):
            if self._console.is_terminal:
                parts = ((escape_controls(text), style) for text, style in line)
                self._console.print(Text.assemble(*parts), soft_wrap=True)
            else:  # as it is: rich would drop some control characters
                print("".join(text for text, _ in line), flush=True)


def record_lines(record: Mapping[str, Any]) -> list[Line]:
    """Words a record; a search for the name of a file finds one line for each finding."""
    file = record["file"].replace("\n", "\\n").replace("\r", "\\r")
    place = (f"{file}:{record['line']}: ", "bold")
    if "damage" in record:
        reason = _one_line(record["damage"])
        return [[place, ("damaged", _STYLES["damage"]), (f": {reason}", "")]]
    name = unit_name(record)
    name = f"  ({_one_line(name[:_LONGEST_NAME])})" if name else ""
    lines = [
        [
            place,
            (f"{finding['kind']} {finding['probability']:.2f}", _STYLES[finding["kind"]]),
            (f'  "{_one_line(finding["text"])}"{name}', ""),
        ]
        for finding in record["findings"]
    ]
    return [*lines, _text_line(record, "source"), _text_line(record, "target")]


def _text_line(record: Mapping[str, Any], side: str) -> Line:
    line = [(f"    {side}: ", "dim")]
    for text, number in marked_side(record, side):
        if number is None:
            line.append((_one_line(text), ""))
        else:
            style = f"underline {_STYLES[record['findings'][number]['kind']]}"
            line += [(_OPEN, "dim"), (_one_line(text), style), (_CLOSE, "dim")]
    return line


def _one_line(text: str) -> str:
    """Keeps a text of several lines from looking like another finding."""
    return _LAYOUT.sub(" ", text)
