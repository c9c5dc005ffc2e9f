"""Decides if a check fails: which findings count, how many a file may have, and the summary.

The baseline: findings that people know already, so that a check reports only new ones.

An entry names a translation, not a line, so that an edit above it changes nothing. It holds as long
as source and target stay as they are, whatever words of them a later model suspects.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from untold.checking.checker import Finding
from untold.checking.segments import FindingKind, Segment
from untold.corpus.text import open_bytes
from untold.errors import UntoldError, shorten
from untold.files import write_file

_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)
_DAMAGE = "damage"


@dataclass(frozen=True)
class FailRules:
    """Says which findings make a check fail; a place that could not be read always does."""

    thresholds: Mapping[FindingKind, float]  # findings of other kinds never count
    budget: int = 0  # so many findings that count may a file have

    def counts(self, finding: Finding) -> bool:
        """Tells if a finding is one of those that a budget limits."""
        limit = self.thresholds.get(finding.kind)
        return limit is not None and finding.probability >= limit

    def shown(self, threshold: float) -> dict[FindingKind, float]:
        """Returns from which probability on each kind is reported: whatever counts is."""
        return {kind: min(threshold, self.thresholds.get(kind, 1.0)) for kind in _KINDS}

    def fail(self, counted: Mapping[str, int], damages: int) -> bool:
        """Decides by the number of findings that count in each file."""
        return damages > 0 or any(number > self.budget for number in counted.values())


def read_fail_rules(given: Sequence[str], threshold: float, budget: int) -> FailRules:
    """Reads the values of --fail-on, such as omission:0.9; without any, all findings count.

    A kind without a number counts from `threshold` on.
    """
    if not given:
        return FailRules(dict.fromkeys(_KINDS, threshold), budget)
    limits: dict[str, float] = {}
    for rule in given:
        name, colon, number = rule.partition(":")
        if name not in (*_KINDS, _DAMAGE):
            known = ", ".join((*_KINDS, _DAMAGE))
            raise UntoldError(f"--fail-on {shorten(rule)}: unknown kind; known: {known}")
        if name in limits:
            raise UntoldError(f"--fail-on {name} is given twice: leave out one of them")
        limits[name] = _probability(rule, number) if colon else threshold
    return FailRules({kind: limits[kind] for kind in _KINDS if kind in limits}, budget)


def _probability(rule: str, text: str) -> float:
    if rule.startswith(_DAMAGE):
        raise UntoldError(
            f"--fail-on {shorten(rule)}: a damage has no probability: write --fail-on damage"
        )
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:  # also refuses NaN
        raise UntoldError(
            f"--fail-on {shorten(rule)}: {shorten(text)} must be a number from 0 to 1, as in "
            "omission:0.9"
        )
    return number


@dataclass
class Tally:
    """Counts what became of the segments of all files."""

    checked: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)  # by reason
    findings: Counter[str] = field(default_factory=Counter)  # by kind
    counted: Counter[str] = field(default_factory=Counter)  # findings that count, by file
    damages: int = 0
    known: int = 0  # findings that the baseline lists
    stale: int = 0  # entries of the baseline that match nothing any more

    def summary(self) -> str:
        """Words the counts in one line; what did not happen is left out, but for findings."""
        parts = [f"segments checked: {self.checked:,}"]
        if self.unchecked:
            parts.append(f"not checked: {_with_parts(self.unchecked)}")
        parts.append(f"findings: {_with_parts(self.findings)}")
        counted = self.counted.total()
        if counted != self.findings.total():
            parts.append(f"of them count: {counted:,}")
        others = {
            "known by the baseline": self.known,
            "stale entries of the baseline": self.stale,
            "damaged places": self.damages,
        }
        parts += [f"{name}: {number:,}" for name, number in others.items() if number]
        return "; ".join(parts)


def _with_parts(counts: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()) if number)
    return f"{sum(counts.values()):,}" + (f" ({parts})" if parts else "")


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
