"""BPE-dropout (Provilkov et al., 2020) skips random merges, so that segmentations of a word vary.

sentencepiece offers it too, but seeds its random numbers differently in every process: a resumed
run would not repeat an uninterrupted one. Here a segmentation depends only on the text and the
random generator.
"""

import random
import re
from collections.abc import Iterator, Mapping

from untold.corpus.vocabulary_training import LONGEST_WORD

__all__ = ["drop_merges"]

_WORD = re.compile("▁[^▁]*")


def drop_merges(
    text: str, scores: Mapping[str, float], dropout: float, rng: random.Random
) -> Iterator[str]:
    """Yields the pieces of a text, with ▁ for a space; dropout 0 gives sentencepiece's own pieces.

    `scores` maps each piece that a merge may make to its score; the highest score merges first. No
    merge crosses a multiple of LONGEST_WORD characters in a word: the time for a word grows with
    the square of its length, and so the time for a text grows with its length alone.
    """
    if text:
        for word in _WORD.findall("▁" + text.replace(" ", "▁")):
            for start in range(0, len(word), LONGEST_WORD):
                yield from _merge(list(word[start : start + LONGEST_WORD]), scores, dropout, rng)


def _merge(
    pieces: list[str], scores: Mapping[str, float], dropout: float, rng: random.Random
) -> list[str]:
    """Merges the best pair until none is left; each round skips each pair with p = dropout."""
    while True:
        best_score, position = -float("inf"), -1
        for k in range(len(pieces) - 1):
            score = scores.get(pieces[k] + pieces[k + 1])
            if score is not None and score > best_score and rng.random() >= dropout:
                best_score, position = score, k
        if position < 0:
            return pieces
        pieces[position : position + 2] = [pieces[position] + pieces[position + 1]]
