"""Rules that hold in every format: options of reading, what is not checked, what is ignored."""

import re
from dataclasses import dataclass, replace

from untold.checking.inline_markup import has_branches, plain_pair, plain_text
from untold.checking.segment import FindingKind, Segment
from untold.errors import UntoldError

__all__ = ["ReadOptions", "finish_segment", "ignored_kinds", "language_rank", "needs_files"]

_IGNORE = re.compile(r"untold:\s*ignore(?:\s+(omission|addition))?", re.IGNORECASE)
_KINDS: dict[str, frozenset[FindingKind]] = {
    "": frozenset({"omission", "addition"}),
    "omission": frozenset({"omission"}),
    "addition": frozenset({"addition"}),
}
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class ReadOptions:
    """Says how files are read; each format uses what concerns it."""

    columns: tuple[str, str] | None = None  # of TSV and JSONL: names, or numbers from 1 in TSV
    source_language: str | None = None  # of TMX and XLIFF, such as "en"; "en" means en-GB, too
    target_language: str | None = None


def finish_segment(raw: Segment, *, gui: bool) -> Segment:
    """Removes markup from both sides and decides whether a model may judge them.

    `gui` means strings of a program, which may hold keyboard accelerators and %1.
    """
    if gui:
        source, target = plain_pair(raw.source, raw.target)
    else:
        source, target = plain_text(raw.source), plain_text(raw.target)
    return replace(raw, source=source, target=target, unchecked=_reason(raw, source, target))


def ignored_kinds(comment: str) -> frozenset[FindingKind]:
    """Reads `untold: ignore`, alone or with the kind that it switches off, on lines of its own."""
    kinds: frozenset[FindingKind] = frozenset()
    for line in comment.split("\n"):
        if found := _IGNORE.fullmatch(line.strip()):
            kinds |= _KINDS[(found[1] or "").lower()]
    return kinds


def language_rank(wanted: str, language: str) -> int | None:
    """Ranks how well a language tag fits the wanted one: 0 is the same, None does not fit."""
    one, other = (tag.lower().replace("_", "-") for tag in (wanted, language))
    if one == other:
        return 0
    if other.startswith(f"{one}-"):
        return 1
    return 2 if one.startswith(f"{other}-") else None


def needs_files(path: object, package: str) -> UntoldError:
    """Makes the error for a package that is not installed."""
    return UntoldError(f"{path}: reading it needs {package}: pip install 'untold[files]'")


def _reason(raw: Segment, source: str, target: str) -> str:
    """Says why the segment is not checked; "" means that it is."""
    if not source.strip():
        return "empty"
    if not raw.target.strip(" \t\r\n\0"):
        return "untranslated"
    if raw.unchecked:
        return raw.unchecked
    if not target.strip():
        return "empty"
    if source.split() == target.split():
        # A single word may well be the same in both languages, and numbers are.
        several = len(source.split()) > 1 and _LETTER.search(source)
        return "untranslated" if several else "identical"
    return "branches" if has_branches(raw.source) or has_branches(raw.target) else ""
