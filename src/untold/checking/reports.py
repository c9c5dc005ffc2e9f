"""Reports of a check: records as docs/check.md describes them, and what is made of them.

A record is a segment with its findings, or a damaged place. From records come the lines in a
terminal, whose marks repeat what colours say, a page, and SARIF 2.1.0 for tools of code review.
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

from rich.console import Console
from rich.text import Text

from untold.checking.checker import CheckedSegment, Finding, JudgedSide
from untold.checking.segments import Damage
from untold.errors import escape_controls
from untold.version import __version__
from untold.web.pages import inline_page, script_json

Record = Mapping[str, Any]
StyledLine = list[tuple[str, str]]  # parts with their styles

_SUSPECTED_SIDE = {"omission": "source", "addition": "target"}  # whose words a finding quotes


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
        "findings": [_finding_record(finding) for finding in findings],
    }


def damage_record(damage: Damage) -> dict[str, Any]:
    """Describes a place that could not be read."""
    return {"file": damage.file, "line": damage.line, "damage": damage.reason}


def json_line(record: Record) -> str:
    """Writes a record as one line that is valid JSON even if a file name is not UTF-8."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return text.encode(errors="backslashreplace").decode()


def marked_side(record: Record, side: str) -> list[tuple[str, int | None]]:
    """Cuts the text of a side into parts, with the number of the finding that suspects a part.

    Where a tokenizer has changed the text too much to find its words again, the words are shown.
    """
    findings = {
        number: finding
        for number, finding in enumerate(record["findings"])
        if _SUSPECTED_SIDE[finding["kind"]] == side
    }
    text, words = record[side]["text"], record[side]["words"]
    places = {number: finding["characters"] for number, finding in findings.items()}
    if None in places.values():
        text = " ".join(words)
        starts = [0, *accumulate(len(word) + 1 for word in words)]
        places = {n: (starts[f["start"]], starts[f["stop"]] - 1) for n, f in findings.items()}
    parts, done = [], 0
    for number, (start, stop) in sorted(places.items(), key=lambda item: item[1]):
        parts += [(text[done:start], None), (text[start:stop], number)]
        done = stop
    return [part for part in (*parts, (text[done:], None)) if part[0]]


def unit_name(record: Record) -> str:
    """Returns the name of a unit, if it says more than its source does, as in catalogues."""
    name = record["name"]
    return "" if name.split() == record["source"]["text"].split() else name


def _side_record(text: str, side: JudgedSide) -> dict[str, Any]:
    return {
        "text": text,
        "any": round(side.any, 6),
        "words": [word.text for word in side.words],
        "probabilities": [round(probability, 6) for probability in side.probabilities],
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


_LONGEST_NAME = 80  # characters; some files name a unit by its whole text
_STYLES = {"omission": "bold yellow", "addition": "bold magenta", "damage": "bold red"}
_LAYOUT = re.compile(r"[\n\r\t\v\f]")


def print_record(record: Record, terminal: Console) -> None:
    """Prints all findings of a segment, or a damaged place; a terminal obeys nothing in them."""
    for line in record_lines(record):
        if terminal.is_terminal:
            parts = ((escape_controls(text), style) for text, style in line)
            terminal.print(Text.assemble(*parts), soft_wrap=True)
        else:  # as it is: rich would drop some control characters
            print("".join(text for text, _ in line), flush=True)


def record_lines(record: Record) -> list[StyledLine]:
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


def _text_line(record: Record, side: str) -> StyledLine:
    line = [(f"    {side}: ", "dim")]
    for text, number in marked_side(record, side):
        if number is None:
            line.append((_one_line(text), ""))
        else:
            style = f"underline {_STYLES[record['findings'][number]['kind']]}"
            line += [(">>", "dim"), (_one_line(text), style), ("<<", "dim")]
    return line


def _one_line(text: str) -> str:
    """Keeps a text of several lines from looking like another finding."""
    return _LAYOUT.sub(" ", text)


def check_page(records: Iterable[Record], summary: str) -> str:
    """Makes a page of findings that needs no other file; no text of a record becomes markup."""
    data = {"summary": _visible(summary), "places": [_place(record) for record in records]}
    return inline_page("check_report.html", script_json(data))


def _place(record: Record) -> dict[str, Any]:
    """Describes a segment or a damage for the script of the page: texts as they are shown."""
    place: dict[str, Any] = {"file": _visible(record["file"]), "line": record["line"]}
    if "damage" in record:
        return place | {"damage": _visible(record["damage"])}
    texts = {
        side: [[_visible(text), number] for text, number in marked_side(record, side)]
        for side in ("source", "target")
    }
    findings = [
        {key: finding[key] for key in ("kind", "probability")} | {"text": _visible(finding["text"])}
        for finding in record["findings"]
    ]
    return place | {"name": _visible(unit_name(record))} | texts | {"findings": findings}


def _visible(text: str) -> str:
    return escape_controls(text, keep="\n\t")


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"  # the usual name of the directory that relative places start from
_ERROR, _WARNING = 0.9, 0.5  # from these probabilities on
_SWITCH_OFF = (
    "or switch the finding off: with a comment in the file, or by an entry of the baseline."
)
_RULES = {  # description and help by id
    "omission": (
        "The translation leaves out words of the source.",
        "Nothing in the translation tells these words of the source. Complete the translation, "
        + _SWITCH_OFF,
    ),
    "addition": (
        "The translation says what the source does not.",
        "Nothing in the source explains these words of the translation. Remove them, "
        + _SWITCH_OFF,
    ),
    "damage": (
        "A place of the file could not be read, so that it was not checked.",
        "Mend the file at this place. Of a catalogue, nothing behind it was checked.",
    ),
}


def sarif_log(records: Iterable[Record], root: Path) -> dict[str, Any]:
    """Describes findings as SARIF 2.1.0 does; files below `root` are named relative to it."""
    rules = [_rule(name, *texts) for name, texts in _RULES.items()]
    seen = Counter[str]()
    run = {
        "tool": {"driver": {"name": "untold", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [result for record in records for result in _results(record, root, seen)],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str, short: str, advice: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": name.capitalize(),
        "shortDescription": {"text": short},
        "fullDescription": {"text": f"{short} {advice}"},
        "help": {"text": advice},
        "defaultConfiguration": {"level": "error" if name == "damage" else "warning"},
        "properties": {"tags": ["translation"]},
    }


def _results(record: Record, root: Path, seen: Counter[str]) -> Iterator[dict[str, Any]]:
    file = _artifact(record["file"], root)
    if "damage" in record:
        message = f"This place could not be read: {record['damage']}"
        prints = _fingerprints(seen, file["uri"], "damage", record["damage"])
        yield _result("damage", "error", message, record, file) | prints
        return
    texts = record["source"]["text"], record["target"]["text"]
    for finding in record["findings"]:
        kind, probability, text = finding["kind"], finding["probability"], finding["text"]
        claim = (
            "The translation leaves out" if kind == "omission" else "Nothing in the source explains"
        )
        message = f"{claim} “{text}” (probability {probability:.2f})"
        prints = _fingerprints(seen, file["uri"], record["name"], kind, *texts, text)
        yield (
            _result(kind, _level(probability), message, record, file)
            | prints
            | {
                "rank": round(100 * probability, 4),
                "properties": {"probability": probability, "source": texts[0], "target": texts[1]},
            }
        )


def _result(
    kind: str, level: str, message: str, record: Record, file: dict[str, str]
) -> dict[str, Any]:
    region = {"startLine": max(1, record["line"])}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": file, "region": region}}
    if record.get("name"):
        location["logicalLocations"] = [{"name": record["name"]}]
    # Viewers take braces for placeholders, which the standard doubles, and brackets for links.
    literal = message.replace("{", "{{").replace("}", "}}").replace("](", "] (")
    return {
        "ruleId": kind,
        "ruleIndex": list(_RULES).index(kind),
        "level": level,
        "message": {"text": escape_controls(literal)},
        "locations": [location],
    }


def _level(probability: float) -> str:
    if probability >= _ERROR:
        return "error"
    return "warning" if probability >= _WARNING else "note"


def _artifact(file: str, root: Path) -> dict[str, str]:
    relative = os.path.relpath(file, root)
    if Path(relative).parts[:1] == (os.pardir,):
        return {"uri": Path(file).absolute().as_uri()}
    return {"uri": quote(os.fsencode(relative.replace(os.sep, "/"))), "uriBaseId": _ROOT}


def _fingerprints(seen: Counter[str], *parts: str) -> dict[str, dict[str, str]]:
    """Identifies a result by its texts, not by its line; equal ones are numbered."""
    digest = hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]
    seen[digest] += 1
    known = f"{digest}:{seen[digest]}"
    return {"partialFingerprints": {"untold/v1": known, "primaryLocationLineHash": known}}
