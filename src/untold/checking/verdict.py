"""Decides if a check fails: which findings count, how many a file may have, what is known already.

A baseline lists known findings, so that a check reports only new ones. Its entries name
translations, not lines, so that an edit above changes nothing, and not words: an entry holds as
long as source and target stay as they are, whatever a later model suspects.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

from untold.checking.checker import CheckedSegment, Finding
from untold.checking.segments import FindingKind, Segment
from untold.corpus.text import open_bytes
from untold.errors import UntoldError, shorten
from untold.files import write_file

_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)
_DAMAGE = "damage"
_LAYOUT = 1  # of a baseline; raise it if a reader of the current one would misread an entry
_HASH_DIGITS = 16


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


class BaselineEntry(NamedTuple):
    """Identifies the findings of one kind in one translation."""

    file: str  # in memory an absolute path; on disk relative to the directory of the baseline
    name: str
    kind: str
    source: str
    target: str  # a hash


@dataclass
class Verdict:
    """Counts what becomes of segments, and tells which findings are new."""

    rules: FailRules
    threshold: float = 0.5  # other findings are reported from this probability on
    known: Set[BaselineEntry] = frozenset()
    checked: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)  # by reason
    findings: Counter[str] = field(default_factory=Counter)  # new ones by kind
    counted: Counter[str] = field(default_factory=Counter)  # new ones that count, by file
    damages: int = 0
    known_findings: int = 0
    entries: set[BaselineEntry] = field(default_factory=set)  # of all findings

    def new_findings(self, checked: CheckedSegment) -> list[Finding]:
        """Counts a judged segment; returns those of its findings that are to be reported."""
        self.checked += 1
        segment, reported = checked.segment, []
        for finding in checked.findings(self.rules.shown(self.threshold)):
            entry = baseline_entry(segment, finding.kind)
            self.entries.add(entry)
            if entry in self.known:
                self.known_findings += 1
                continue
            self.findings[finding.kind] += 1
            self.counted[segment.file] += self.rules.counts(finding)
            reported.append(finding)
        return reported

    def summary(self, files: Iterable[Path]) -> str:
        """Words the counts in one line, once all of these files have been checked."""
        parts = [f"segments checked: {self.checked:,}"]
        if self.unchecked:
            parts.append(f"not checked: {_with_parts(self.unchecked)}")
        parts.append(f"findings: {_with_parts(self.findings)}")
        counted = self.counted.total()
        if counted != self.findings.total():
            parts.append(f"of them count: {counted:,}")
        others = {
            "known by the baseline": self.known_findings,
            "stale entries of the baseline": len(entries_of(files, self.known) - self.entries),
            "damaged places": self.damages,
        }
        parts += [f"{name}: {number:,}" for name, number in others.items() if number]
        return "; ".join(parts)


def _with_parts(counts: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()) if number)
    return f"{sum(counts.values()):,}" + (f" ({parts})" if parts else "")


def baseline_entry(segment: Segment, kind: FindingKind) -> BaselineEntry:
    """Makes the entry of the findings of one kind in a translation."""
    target = hashlib.sha256(segment.target.encode(errors="surrogatepass")).hexdigest()
    file = _absolute(segment.file)
    return BaselineEntry(file, segment.name, kind, segment.source, target[:_HASH_DIGITS])


def entries_of(files: Iterable[Path], entries: Set[BaselineEntry]) -> Set[BaselineEntry]:
    """Returns those entries that are about one of the files."""
    paths = {_absolute(file) for file in files}
    return {entry for entry in entries if entry.file in paths}


def read_baseline(path: Path) -> frozenset[BaselineEntry]:
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
    folder = Path(_absolute(path)).parent
    return frozenset(
        entry._replace(file=os.path.normpath(folder / entry.file)) for entry in entries
    )


def write_baseline(path: Path, entries: Iterable[BaselineEntry]) -> None:
    """Writes entries, a line each and sorted, so that a change is a small difference."""
    folder = Path(_absolute(path)).parent
    relative = {
        entry._replace(file=os.path.relpath(entry.file, folder).replace(os.sep, "/"))
        for entry in entries
    }
    lines = [json.dumps(entry._asdict(), ensure_ascii=False) for entry in sorted(relative)]
    listed = "".join(f"\n  {line}," for line in lines).removesuffix(",")
    text = f'{{\n "layout": {_LAYOUT},\n "known": [{listed}\n ]\n}}\n'
    write_file(path, text.encode(errors="backslashreplace"))  # as JSON writes a lone surrogate


def _entry(values: Any) -> BaselineEntry:
    if not isinstance(values, dict) or values.keys() != set(BaselineEntry._fields):
        raise ValueError
    if not all(isinstance(value, str) for value in values.values()) or "\0" in values["file"]:
        raise TypeError
    return BaselineEntry(**values)


def _absolute(file: str | Path) -> str:
    return os.path.abspath(file)  # noqa: PTH100 (without following links, which may differ)
