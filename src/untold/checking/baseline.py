"""The baseline: findings that people know already, so that a check reports only new ones.

An entry names a translation, not a line, so that an edit above it changes nothing. It holds as long
as source and target stay as they are, whatever words of them a later model suspects.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from untold.checking.segment import FindingKind, Segment
from untold.corpus.lines import open_bytes
from untold.durable import write_file
from untold.errors import UntoldError

__all__ = ["Baseline", "BaselineEntry", "baseline_entry", "read_baseline", "write_baseline"]

_LAYOUT = 1  # raise it if a reader of the current layout would misread an entry
_HASH_DIGITS = 16


@dataclass(frozen=True, order=True)
class BaselineEntry:
    """Identifies the findings of one kind in one translation."""

    file: str  # in memory an absolute path; on disk relative to the directory of the baseline
    name: str
    kind: str
    source: str
    target: str  # a hash


class Baseline:
    """Remembers which of its entries a check has met."""

    def __init__(self, entries: Iterable[BaselineEntry] = ()) -> None:
        self.entries = frozenset(entries)
        self._met: set[BaselineEntry] = set()

    def knows(self, segment: Segment, kind: FindingKind) -> bool:
        """Tells if findings of this kind are known in this translation."""
        entry = baseline_entry(segment, kind)
        if entry not in self.entries:
            return False
        self._met.add(entry)
        return True

    def stale(self, files: Iterable[str | Path]) -> list[BaselineEntry]:
        """Lists the entries of these files, all of which were checked, that were never met."""
        checked = {_absolute(file) for file in files}
        return sorted(e for e in self.entries - self._met if e.file in checked)

    def elsewhere(self, files: Iterable[str | Path]) -> frozenset[BaselineEntry]:
        """Returns the entries of all other files, about which a check of these says nothing."""
        checked = {_absolute(file) for file in files}
        return frozenset(e for e in self.entries if e.file not in checked)


def baseline_entry(segment: Segment, kind: FindingKind) -> BaselineEntry:
    """Makes the entry of the findings of one kind in a translation."""
    target = hashlib.sha256(segment.target.encode(errors="surrogatepass")).hexdigest()
    file = _absolute(segment.file)
    return BaselineEntry(file, segment.name, kind, segment.source, target[:_HASH_DIGITS])


def read_baseline(path: Path) -> Baseline:
    """Reads what write_baseline wrote; anything else is an error that names the file."""
    with open_bytes(path) as file:
        data = file.read()
    try:
        document = json.loads(data)
        layout = document["layout"]
        entries = [_entry(values) for values in document["known"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UntoldError(
            f"{path}: no baseline of untold check, or damaged: restore it, or write it anew with "
            "--write-baseline"
        ) from None
    if layout != _LAYOUT:
        raise UntoldError(
            f"{path}: has layout {layout!r:.20}, and this version of untold reads {_LAYOUT}: "
            "write it anew with --write-baseline"
        )
    folder = _folder(path)
    return Baseline(
        BaselineEntry(**(asdict(e) | {"file": os.path.normpath(os.path.join(folder, e.file))}))  # noqa: PTH118
        for e in entries
    )


def write_baseline(path: Path, entries: Iterable[BaselineEntry]) -> None:
    """Writes entries, a line each and sorted, so that a change is a small difference."""
    folder = _folder(path)
    relative = {
        BaselineEntry(**(asdict(each) | {"file": _posix(os.path.relpath(each.file, folder))}))
        for each in entries
    }
    lines = [json.dumps(asdict(each), ensure_ascii=False) for each in sorted(relative)]
    listed = "".join(f"\n  {line}," for line in lines).removesuffix(",")
    text = f'{{\n "layout": {_LAYOUT},\n "known": [{listed}\n ]\n}}\n'
    write_file(path, text.encode(errors="backslashreplace"))  # as JSON writes a lone surrogate


def _entry(values: Any) -> BaselineEntry:
    names = {each.name for each in fields(BaselineEntry)}
    if not isinstance(values, dict) or values.keys() != names:
        raise ValueError
    if not all(isinstance(value, str) for value in values.values()) or "\0" in values["file"]:
        raise TypeError
    return BaselineEntry(**values)


def _absolute(file: str | Path) -> str:
    return os.path.abspath(file)  # noqa: PTH100 (without following links, which may differ)


def _folder(path: Path) -> str:
    return os.path.dirname(_absolute(path))  # noqa: PTH120


def _posix(path: str) -> str:
    return path.replace(os.sep, "/")
