"""The unit that a checker reads: a translation in a file, or a place where a file is damaged."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Damage", "FindingKind", "Segment"]

FindingKind = Literal["omission", "addition"]


@dataclass(frozen=True, slots=True)
class Segment:
    """One translation: both sides as plain text without markup, and where it stands."""

    file: str
    line: int  # from 1: where the translation begins
    source: str
    target: str
    name: str = ""  # what the file calls the unit, such as the id of a trans-unit
    ignored: frozenset[FindingKind] = frozenset()  # kinds that a comment in the file switches off
    unchecked: str = ""  # why a model must not judge it: "empty", "untranslated", "fuzzy", ...


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that could not be read; whatever follows it is still checked if possible."""

    file: str
    line: int
    reason: str  # one line, with the cure
