"""The findings of a segment as JSON, as docs/check.md describes it; all reports start from it."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from untold.checking.finding import CheckedSegment, Finding, JudgedSide
from untold.checking.segment import Damage

__all__ = [
    "SUSPECTED_SIDE",
    "damage_record",
    "json_line",
    "marked_side",
    "segment_record",
    "unit_name",
]

SUSPECTED_SIDE = {"omission": "source", "addition": "target"}  # whose words a finding quotes
_BLANKS = re.compile(r"\s*")


def segment_record(checked: CheckedSegment, findings: Sequence[Finding]) -> dict[str, Any]:
    """Describes a judged segment and those of its findings that are reported."""
    segment = checked.segment
    sides = {"source": checked.source, "target": checked.target}
    texts = {"source": segment.source, "target": segment.target}
    places = {name: _word_places(texts[name], side.words) for name, side in sides.items()}
    return {
        "file": segment.file,
        "line": segment.line,
        "name": segment.name,
        **{name: _side_record(texts[name], side) for name, side in sides.items()},
        "findings": [_finding_record(each, places[SUSPECTED_SIDE[each.kind]]) for each in findings],
    }


def damage_record(damage: Damage) -> dict[str, Any]:
    """Describes a place that could not be read."""
    return {"file": damage.file, "line": damage.line, "damage": damage.reason}


def json_line(record: Mapping[str, Any]) -> str:
    """Writes a record as one line that is valid JSON even if a file name is not UTF-8."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace").decode()


def marked_side(record: Mapping[str, Any], side: str) -> list[tuple[str, int | None]]:
    """Cuts the text of a side into parts, with the number of the finding that suspects a part.

    Where a tokenizer has changed the text too much to find its words again, the words are shown.
    """
    own = [
        (number, finding)
        for number, finding in enumerate(record["findings"])
        if SUSPECTED_SIDE[finding["kind"]] == side
    ]
    text, words = record[side]["text"], record[side]["words"]
    places = {number: finding["characters"] for number, finding in own}
    if None in places.values():
        text = " ".join(words)
        ends = list(accumulate(len(word) + 1 for word in words))
        starts = [0, *ends]
        places = {n: (starts[each["start"]], ends[each["stop"] - 1] - 1) for n, each in own}
    parts, done = [], 0
    for number, (start, stop) in sorted(places.items(), key=lambda item: item[1]):
        parts += [(text[done:start], None), (text[start:stop], number)]
        done = stop
    return [part for part in (*parts, (text[done:], None)) if part[0]]


def unit_name(record: Mapping[str, Any]) -> str:
    """Returns the name of a unit, if it says more than its source does, as in catalogues."""
    name = record["name"]
    return "" if name.split() == record["source"]["text"].split() else name


def _side_record(text: str, side: JudgedSide) -> dict[str, Any]:
    return {
        "text": text,
        "any": round(side.any, 6),
        "words": list(side.words),
        "probabilities": [round(each, 6) for each in side.probabilities],
    }


def _finding_record(finding: Finding, places: list[tuple[int, int]] | None) -> dict[str, Any]:
    found = places and [places[finding.start][0], places[finding.stop - 1][1]]
    return {
        "kind": finding.kind,
        "probability": round(finding.probability, 6),
        "text": finding.text,
        "start": finding.start,
        "stop": finding.stop,
        "characters": found or None,
    }


def _word_places(text: str, words: Sequence[str]) -> list[tuple[int, int]] | None:
    """Finds where each word stands in the text; None unless they are all that is in it."""
    places, place = [], 0
    for word in words:
        place = _end_of_blanks(text, place)
        if not text.startswith(word, place):
            return None
        places.append((place, place + len(word)))
        place += len(word)
    return places if _end_of_blanks(text, place) == len(text) else None


def _end_of_blanks(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    return found.end() if found else place
