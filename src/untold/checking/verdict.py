"""Decides if a check fails: which findings count, how many a file may have, and the summary."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from untold.checking.finding import Finding
from untold.checking.segment import FindingKind
from untold.errors import UntoldError, shorten

__all__ = ["FailRules", "Tally", "read_fail_rules"]

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
