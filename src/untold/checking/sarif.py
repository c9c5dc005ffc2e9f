"""Findings as SARIF 2.1.0, the format that code-review tools read.

The file is made part by part, so that any number of findings fits.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from untold.errors import escape_controls
from untold.version import __version__

__all__ = ["sarif_parts"]

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
