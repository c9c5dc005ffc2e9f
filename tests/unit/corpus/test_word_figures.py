"""Compares figures of words with those of their pieces, by hand."""

import numpy as np

from untold.corpus.words import Word, merge_assignments


def word(start: int, stop: int) -> Word:
    return Word("x", None, slice(start, stop), "x")


def test_a_target_word_has_the_row_of_its_first_piece() -> None:
    assignments = np.random.default_rng(1).dirichlet([1, 1, 1], size=(5, 4))
    merged = merge_assignments(assignments, [word(0, 2), word(2, 4)], [word(0, 1), word(1, 3)])
    assert merged.shape == (3, 2, 3)  # EOS is the last row, and that of the source is no word
    np.testing.assert_allclose(merged[:, 0], assignments[[0, 2, 4], 0])


def test_a_source_word_is_redundant_as_far_as_all_its_pieces_are() -> None:
    space, stem, end = [0.0, 0.0, 1.0], [0.8, 0.1, 0.1], [0.3, 0.2, 0.5]
    assignments = np.array([[space, stem, end, [1.0, 0.0, 0.0]]])
    (shares,) = merge_assignments(assignments, [], [word(0, 3)])[0]
    told = (1 - 1.0 * 0.1 * 0.5) / (0.9 + 0.5)  # of each piece that is not redundant
    np.testing.assert_allclose(shares, [1.1 * told, 0.3 * told, 0.05])
    (blank,) = merge_assignments(assignments, [], [word(0, 1)])[0]
    np.testing.assert_allclose(blank, space)


def test_pieces_without_redundant_ones_give_their_mean() -> None:
    """The shares of ATTN sum to one over the words and not over the categories."""
    assignments = np.array([[[0.5, 0.1, 0.0], [0.2, 0.1, 0.0], [0.3, 0.8, 0.0]]])
    (shares,) = merge_assignments(assignments, [], [word(0, 2)])[0]
    np.testing.assert_allclose(shares, [0.35, 0.1, 0.0])


def test_no_words_leave_the_end_alone() -> None:
    assignments = np.ones((1, 1, 3), dtype=np.float32)
    assert merge_assignments(assignments, [], []).shape == (1, 0, 3)
