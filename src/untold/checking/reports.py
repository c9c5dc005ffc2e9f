"""The findings of a segment as JSON, as docs/check.md describes it; all reports start from it.

Findings in the terminal: a line `file:line: ...` each, and both texts below with marks.

Marks repeat what colours say, so that the report can be read without colours.

A self-contained HTML page of findings, with the data inside.

The page is made part by part, so that any number of findings fits.

Findings as SARIF 2.1.0, the format that code-review tools read.

The file is made part by part, so that any number of findings fits.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.text import Text

from untold.checking.checker import CheckedSegment, Finding, JudgedSide
from untold.checking.segments import Damage
from untold.errors import escape_controls
from untold.terminal import console
from untold.version import __version__
from untold.web.pages import DATA_PLACE, inline_template, script_json

SUSPECTED_SIDE = {"omission": "source", "addition": "target"}  # whose words a finding quotes


def segment_record(checked: CheckedSegment, findings: Sequence[Finding]) -> dict[str, Any]:
    """Describes a judged segment and those of its findings that are reported."""
    segment = checked.segment
    sides = {"source": checked.source, "target": checked.target}
    texts = {"source": segment.source, "target": segment.target}
    return {
        "file": segment.file,
        "line": segment.line,
        "name": segment.name,
        **{name: _side_record(texts[name], side) for name, side in sides.items()},
        "findings": [_finding_record(each) for each in findings],
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
        "words": [word.text for word in side.words],
        "probabilities": [round(each, 6) for each in side.probabilities],
    }


def _finding_record(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "probability": round(finding.probability, 6),
        "text": finding.text,
        "start": finding.start,
        "stop": finding.stop,
        "characters": finding.characters and list(finding.characters),
    }


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


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"  # the usual name of the directory that relative places start from
_ERROR, _WARNING = 0.9, 0.5  # from these probabilities on
# id, name, short description, help
_RULES = (
    (
        "omission",
        "Omission",
        "The translation leaves out words of the source.",
        "Nothing in the translation tells these words of the source. Complete the translation, or "
        "switch the finding off: with a comment in the file, or by an entry of the baseline.",
    ),
    (
        "addition",
        "Addition",
        "The translation says what the source does not.",
        "Nothing in the source explains these words of the translation. Remove them, or switch the "
        "finding off: with a comment in the file, or by an entry of the baseline.",
    ),
    (
        "damage",
        "Damage",
        "A place of the file could not be read, so that it was not checked.",
        "Mend the file at this place. Whatever follows it was checked if possible.",
    ),
)
_RULE_NUMBERS = {rule[0]: number for number, rule in enumerate(_RULES)}


def sarif_parts(records: Iterable[Mapping[str, Any]], root: Path) -> Iterator[str]:
    """Yields the text of a SARIF file; files below `root` are named relative to it."""
    driver = {"name": "untold", "version": __version__, "rules": [_rule(*each) for each in _RULES]}
    head = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
    }
    yield f'{{\n "$schema": "{_SCHEMA}",\n "version": "2.1.0",\n "runs": [\n'
    yield f'  {json.dumps(head)[:-1]}, "results": ['
    separator, seen = "\n", Counter[str]()
    for record in records:
        for result in _results(record, root, seen):
            yield separator + json.dumps(result, allow_nan=False)
            separator = ",\n"
    yield "\n  ]}\n ]\n}\n"


def _rule(name: str, title: str, short: str, advice: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": title,
        "shortDescription": {"text": short},
        "fullDescription": {"text": f"{short} {advice}"},
        "help": {"text": advice},
        "defaultConfiguration": {"level": "error" if name == "damage" else "warning"},
        "properties": {"tags": ["translation"]},
    }


def _results(record: Mapping[str, Any], root: Path, seen: Counter[str]) -> Iterator[dict[str, Any]]:
    uri = _artifact(record["file"], root)
    if "damage" in record:
        message = f"This place could not be read: {record['damage']}"
        yield _result("damage", "error", message, record, uri) | {
            "partialFingerprints": _fingerprints(seen, uri["uri"], "damage", record["damage"])
        }
        return
    for finding in record["findings"]:
        kind, probability = finding["kind"], finding["probability"]
        texts = record["source"]["text"], record["target"]["text"]
        known = (uri["uri"], record["name"], kind, *texts, finding["text"])
        message = f"{_claim(kind, finding['text'])} (probability {probability:.2f})"
        yield _result(kind, _level(probability), message, record, uri) | {
            "rank": round(100 * probability, 4),
            "partialFingerprints": _fingerprints(seen, *known),
            "properties": {"probability": probability, "source": texts[0], "target": texts[1]},
        }


def _claim(kind: str, text: str) -> str:
    if kind == "omission":
        return f"The translation leaves out “{text}”"
    return f"Nothing in the source explains “{text}”"


def _result(
    kind: str, level: str, message: str, record: Mapping[str, Any], uri: dict[str, str]
) -> dict[str, Any]:
    region = {"startLine": max(1, record["line"])}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": uri, "region": region}}
    if record.get("name"):
        location["logicalLocations"] = [{"name": record["name"]}]
    return {
        "ruleId": kind,
        "ruleIndex": _RULE_NUMBERS[kind],
        "level": level,
        "message": {"text": _literal(message)},
        "locations": [location],
    }


def _literal(message: str) -> str:
    """Keeps a viewer from taking a text for a placeholder, a link or an escape sequence."""
    doubled = message.replace("{", "{{").replace("}", "}}")  # so the standard writes them
    return escape_controls(doubled.replace("](", "] ("))


def _level(probability: float) -> str:
    if probability >= _ERROR:
        return "error"
    return "warning" if probability >= _WARNING else "note"


def _artifact(file: str, root: Path) -> dict[str, str]:
    relative = os.path.relpath(file, root)
    if Path(relative).parts[:1] == (os.pardir,):
        return {"uri": Path(file).absolute().as_uri()}
    return {"uri": quote(os.fsencode(relative.replace(os.sep, "/"))), "uriBaseId": _ROOT}


def _fingerprints(seen: Counter[str], *parts: str) -> dict[str, str]:
    """Identifies a result by its texts, not by its line; equal ones are numbered."""
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
    seen[digest] += 1
    known = f"{digest}:{seen[digest]}"
    return {"untold/v1": known, "primaryLocationLineHash": known}
