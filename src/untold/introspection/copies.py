"""Finds the words that a model with a copy mechanism has copied, and their origin.

`Translation.copying` is the probability of copying each source piece, whatever piece is produced. A
piece that was produced can only be a copy of the same piece in the source, so that only these
places count here.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from untold.account.word_figures import merge_copying
from untold.corpus.word_spans import display_spans
from untold.translator import Translation

__all__ = ["Copy", "copied_words", "copy_probabilities", "copy_records", "find_copies"]

_MOSTLY = 0.5  # a word with a lower probability may as well have been generated


@dataclass(frozen=True)
class Copy:
    """A target word that was copied, and the source word that most of it was copied from."""

    target: int
    source: int
    probability: float  # of copying it from any place; the mean over the pieces of the word


def copy_probabilities(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """Returns the probability that each piece is a copy of each source piece.

    The result is None if the model does not copy. Rows and columns are those of
    `Translation.copying`; EOS is never copied.
    """
    if translation.copying is None:
        return None
    same: Bool[np.ndarray, "t i"] = np.zeros(translation.copying.shape, dtype=bool)
    for place, piece in enumerate(translation.tokens):
        same[place, :-1] = [piece == other for other in translation.source_tokens]
    return np.where(same, translation.copying, 0)


def find_copies(translation: Translation) -> tuple[Copy, ...]:
    """Finds the copied words in the order of the target; counts words as they are displayed."""
    weights = copy_probabilities(translation)
    if weights is None:
        return ()
    rows = _merge(weights, translation)[:-1]
    return tuple(
        Copy(place, int(row.argmax()), round(float(row.sum()), 6))
        for place, row in enumerate(rows)
        if row.sum() > _MOSTLY
    )


def copied_words(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """Merges the pieces of `Translation.copying` into words; the last row is that of EOS."""
    return None if translation.copying is None else _merge(translation.copying, translation)


def copy_records(
    copying: Float[np.ndarray, "t i"] | None, copies: tuple[Copy, ...]
) -> dict[str, Any]:
    """Converts both for JSON, in the layout of docs/explain.md."""
    numbers = None if copying is None else copying.astype(np.float64).round(6).tolist()
    return {"copying": numbers, "copies": [asdict(each) for each in copies]}


def _merge(
    weights: Float[np.ndarray, "t i"], translation: Translation
) -> Float[np.ndarray, "words_t words_i"]:
    target, source = (display_spans(s) for s in (translation.tokens, translation.source_tokens))
    return merge_copying(weights, target, source)
