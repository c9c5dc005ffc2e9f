"""Results that are kept: each in a file that says what it was made from, and is sealed.

A file whose seal does not fit was damaged, and one that was made from something else is old: both
are made again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from untold import files as durable
from untold.version import __version__


def fingerprint(*values: Any) -> str:
    """Returns a short name of JSON values; other values have another one."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_texts(texts: Iterable[str]) -> str:
    """Returns the sha256 of texts without line ends, as of one file."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{text}\n".encode())
    return digest.hexdigest()


class KeptResults:
    """A folder of results, by name."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say

    def get(self, name: str, made_from: Any, make: Callable[[], Any]) -> Any:
        """Returns what is kept under a name, or makes and keeps it; it is a JSON value."""
        found = self.find(name, made_from)
        if found is not None:
            return found
        value, path = make(), self._folder / f"{name}.json"
        record = {"made_from": _origin(made_from), "version": __version__, "value": value}
        record["seal"] = fingerprint(record)
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(path, (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode())
        return json.loads(json.dumps(value))

    def find(self, name: str, made_from: Any) -> Any | None:
        """Returns what is kept under a name; None if nothing is, or it was made otherwise."""
        record = self._read(self._folder / f"{name}.json")
        made_otherwise = record is None or record["made_from"] != _origin(made_from)
        return None if record is None or made_otherwise else record["value"]

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            record = None
        if not isinstance(record, dict) or not _is_whole(record):
            self._say(f"{path} is damaged: it is made again")
            return None
        return record


def _origin(made_from: Any) -> str:
    return fingerprint(__version__, made_from)


def _is_whole(record: dict[str, Any]) -> bool:
    seal = record.pop("seal", None)
    return seal == fingerprint(record) and {"made_from", "value"} <= record.keys()
