"""A self-contained HTML page of findings, with the data inside.

The page is made part by part, so that any number of findings fits.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from untold.checking.check_records import marked_side, unit_name
from untold.errors import escape_controls
from untold.web.inlining import inline_template
from untold.web.script_data import DATA_PLACE, script_json

__all__ = ["page_parts"]


def page_parts(records: Iterable[Mapping[str, Any]], summary: str) -> Iterator[str]:
    """Yields the text of a page; the texts of the records cannot become markup."""
    before, _, after = inline_template("check_report.html").partition(DATA_PLACE)
    yield f'{before}{{"summary": {script_json(_visible(summary))}, "places": ['
    separator = "\n"
    for record in records:
        yield separator + script_json(_place(record))
        separator = ",\n"
    yield f"]}}{after}"


def _place(record: Mapping[str, Any]) -> dict[str, Any]:
    """Describes a segment or a damage for the script of the page: texts as they are shown."""
    place: dict[str, Any] = {"file": _visible(record["file"]), "line": record["line"]}
    if "damage" in record:
        return place | {"damage": _visible(record["damage"])}
    texts = {
        side: [[_visible(text), number] for text, number in marked_side(record, side)]
        for side in ("source", "target")
    }
    found = [
        {"kind": each["kind"], "probability": each["probability"], "text": _visible(each["text"])}
        for each in record["findings"]
    ]
    return place | {"name": _visible(unit_name(record))} | texts | {"findings": found}


def _visible(text: str) -> str:
    return escape_controls(text, keep="\n\t")
