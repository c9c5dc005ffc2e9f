"""Decides which pairs of a corpus are dropped, and counts them by reason.

Both sides of a pair are always dropped together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from untold.errors import UntoldError

Reason = Literal["empty", "too long", "unequal"]


@dataclass(frozen=True)
class Limits:
    """Limits the pieces and words of a side, and how many times longer than the other it may be."""

    max_tokens: int
    max_ratio: float | None = None
    max_words: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UntoldError(f"max_tokens {self.max_tokens}: at least 1 piece must be allowed")
        if self.max_ratio is not None and self.max_ratio < 1.0:
            raise UntoldError(f"max_ratio {self.max_ratio}: even equal lengths have ratio 1")
        if self.max_words is not None and self.max_words < 1:
            raise UntoldError(f"max_words {self.max_words}: at least 1 word must be allowed")


@dataclass(frozen=True)
class FilterReport:
    """Counts the pairs that were kept, and those that were dropped, by reason."""

    kept: int
    dropped: Mapping[str, int]

    @property
    def total(self) -> int:
        """Counts all pairs that were read."""
        return self.kept + sum(self.dropped.values())

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dropped.items()))
        return f"{self.kept} of {self.total} pairs kept" + (f" ({reasons} dropped)" * bool(reasons))


def reason_to_drop(source: int, target: int, limits: Limits) -> Reason | None:
    """Returns the first reason to drop a pair with these lengths in pieces; None keeps it."""
    shorter, longer = sorted((source, target))
    if shorter == 0:
        return "empty"
    if longer > limits.max_tokens:
        return "too long"
    if limits.max_ratio is not None and longer > limits.max_ratio * shorter:
        return "unequal"
    return None


def has_too_many_words(texts: tuple[str, str], limits: Limits) -> bool:
    """Says if a side of a pair has more words, parted by blanks, than are allowed."""
    most = limits.max_words
    return most is not None and any(len(text.split()) > most for text in texts)
