"""Which words a model that copies has copied, and from where.

Translation.copying says where the model would copy from, whatever comes of it. A piece that was
said can have been copied only from the same piece of the source: these places alone count here.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from untold.corpus.word_spans import display_spans, merge_copying
from untold.translator import Translation

__all__ = ["Copy", "copy_records", "find_copies", "said_by_copying"]

_MOSTLY = 0.5  # below it, a word may as well have been generated


@dataclass(frozen=True)
class Copy:
    """A target word that was copied, and the source word from which most of it was."""

    target: int
    source: int
    probability: float  # of copying it, from wherever it stands; of a word the mean of its pieces


def said_by_copying(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """The probability of saying each piece by copying it from each place; None without copying.

    Rows and columns as in Translation.copying; the ends are never copied.
    """
    if translation.copying is None:
        return None
    same: Bool[np.ndarray, "t i"] = np.zeros(translation.copying.shape, dtype=bool)
    for place, piece in enumerate(translation.tokens):
        same[place, :-1] = [piece == other for other in translation.source_tokens]
    return np.where(same, translation.copying, 0)


def find_copies(translation: Translation) -> tuple[Copy, ...]:
    """Of words as they are shown, in the order of the target."""
    weights = said_by_copying(translation)
    if weights is None:
        return ()
    target, source = (display_spans(s) for s in (translation.tokens, translation.source_tokens))
    rows = merge_copying(weights, target, source)[: len(target)]
    return tuple(
        Copy(place, int(row.argmax()), round(float(row.sum()), 6))
        for place, row in enumerate(rows)
        if row.sum() > _MOSTLY
    )


def copy_records(
    copying: Float[np.ndarray, "t i"] | None, copies: tuple[Copy, ...]
) -> dict[str, Any]:
    """All of it for JSON, in the layout of docs/explain.md."""
    numbers = None if copying is None else copying.astype(np.float64).round(6).tolist()
    return {"copying": numbers, "copies": [asdict(each) for each in copies]}
