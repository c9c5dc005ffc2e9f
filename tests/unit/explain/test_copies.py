"""Which words were copied: only what the source says, only if it is likely, and from where."""

import numpy as np

from untold.decoding.scoring import ReadPair
from untold.explain.explanation import Copy, copy_probabilities, find_copies
from untold.models.signals import Signals
from untold.translator import Translation

SOURCE, TARGET = ("▁Ob", "ama", "▁a", "▁Ob"), ("▁Ob", "ama", "▁x", "▁a")


def translation(rows: list[list[float]] | None) -> Translation:
    copying = None if rows is None else np.array(rows)
    return Translation("Obama x a", -1.0, -2.0, TARGET, SOURCE, signals=Signals(copying=copying))


ROWS = [
    [0.3, 0.1, 0.0, 0.4, 0.0],  # ▁Ob stands twice in the source
    [0.0, 0.9, 0.0, 0.0, 0.0],
    [0.9, 0.0, 0.0, 0.0, 0.0],  # ▁x was said although copying was likely: it is not in the source
    [0.0, 0.0, 0.5, 0.4, 0.0],  # no more likely than not
    [0.0, 0.8, 0.0, 0.0, 0.1],  # the end is never copied
]


def copies(rows: list[list[float]] | None) -> tuple[Copy, ...]:
    nothing = np.zeros((4, 4))
    numbers = (np.zeros((5, 4, 3)), nothing, nothing, np.zeros(4), np.zeros(4), np.zeros(5))
    return find_copies(translation(rows), ReadPair(SOURCE, TARGET, *numbers))


def test_a_piece_is_copied_from_the_same_piece_alone() -> None:
    expected = [[0.3, 0, 0, 0.4, 0], [0, 0.9, 0, 0, 0], [0] * 5, [0, 0, 0.5, 0, 0], [0] * 5]
    np.testing.assert_array_equal(copy_probabilities(translation(ROWS)), expected)
    assert copy_probabilities(translation(None)) is None


def test_words_are_copied_from_the_word_of_most_of_them() -> None:
    """Of the pieces of Obama .7 and .9 are copied: by Obama .6 of the word, by Ob .2."""
    assert copies(ROWS) == (Copy(target=0, source=0, probability=0.8),)
    more = [*ROWS[:3], [0.0, 0.0, 0.51, 0.4, 0.0], ROWS[4]]
    assert copies(more)[1:] == (Copy(target=2, source=1, probability=0.51),)
    assert copies(None) == ()
