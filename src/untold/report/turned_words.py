"""Finds the source words that have just turned, as tables and figures mark them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from untold.categories import FUTURE, PAST, REDUNDANT

__all__ = ["TurnedWords", "any_falls_back", "turned_words"]


@dataclass(frozen=True)
class TurnedWords:
    """Source words whose past has overtaken future since the step before, or the other way round.

    A word that is mostly neither has not turned.
    """

    told: frozenset[int] = frozenset()
    fallen: frozenset[int] = frozenset()


def turned_words(shares: Float[np.ndarray, "t i g"], step: int) -> TurnedWords:
    """Finds the words that have turned between the step before and this one."""
    if not 0 < step < len(shares):
        return TurnedWords()
    before, now = (shares[k, :, PAST] > shares[k, :, FUTURE] for k in (step - 1, step))
    is_either = shares[step].argmax(axis=-1) != REDUNDANT
    told, fallen = (np.flatnonzero(each & is_either) for each in (now & ~before, before & ~now))
    return TurnedWords(frozenset(map(int, told)), frozenset(map(int, fallen)))


def any_falls_back(shares: Float[np.ndarray, "t i g"]) -> bool:
    """Tells whether a word that was told is untold again at some step."""
    return any(turned_words(shares, step).fallen for step in range(len(shares)))
