"""BPE-dropout (Provilkov et al., 2020): now and then a merge is left out, so words are cut anew.

sentencepiece offers it too, but salts its random numbers in every process: a resumed run would not
repeat an uninterrupted one. Here a segmentation depends on the text and the seed alone.
"""

import random
import re
from collections.abc import Iterator, Mapping

__all__ = ["drop_merges"]

_WORD = re.compile("▁[^▁]*")


def drop_merges(
    text: str, scores: Mapping[str, float], dropout: float, dice: random.Random
) -> Iterator[str]:
    """The pieces of a text, a space written ▁; without dropout, those that sentencepiece gives.

    `scores` are of the pieces that merges may make; the one with the highest score is made first.
    """
    if text:
        for word in _WORD.findall("▁" + text.replace(" ", "▁")):
            yield from _merge(list(word), scores, dropout, dice)


def _merge(
    pieces: list[str], scores: Mapping[str, float], dropout: float, dice: random.Random
) -> list[str]:
    """Merge the best pair again and again; each pair may be overlooked each time."""
    while True:
        best, place = -float("inf"), -1
        for k in range(len(pieces) - 1):
            score = scores.get(pieces[k] + pieces[k + 1])
            if score is not None and score > best and dice.random() >= dropout:
                best, place = score, k
        if place < 0:
            return pieces
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
