"""Pictures of past and future layers: what is in the cells, and that all of it is on the sheet."""

import numpy as np

from untold.explain.explanation import PfrnnExplanation, PfrnnStates, Side
from untold.explain.figures import pfrnn_figure, pfrnn_png, pfrnn_svg


def make(*pieces: str) -> PfrnnExplanation:
    """States by formula: the past is one axis after another, the future turns to its opposite."""
    n = len(pieces)
    angles = np.linspace(0, np.pi, n)
    future = np.zeros((n, n))
    future[:, 0], future[:, 1] = np.cos(angles), np.sin(angles)
    states = PfrnnStates(pieces, 3 * np.eye(n), future, pieces, pieces)
    return PfrnnExplanation(Side("a b", ("a", "b")), Side("$x", ("$x",)), states, -0.5, -1.0)


def test_cells_are_cosines_of_past_and_of_future() -> None:
    figure = pfrnn_figure([make("▁a", "$b", "(end)")])
    past, future, _ = figure.axes
    assert (past.get_title(), future.get_title()) == ("PAST", "FUTURE")
    np.testing.assert_allclose(past.get_images()[0].get_array(), np.eye(3), atol=1e-9)
    expected = [[1, 0, -1], [0, 1, 0], [-1, 0, 1]]
    np.testing.assert_allclose(future.get_images()[0].get_array(), expected, atol=1e-9)
    assert {axes.get_images()[0].get_clim() for axes in (past, future)} == {(-1.0, 1.0)}
    assert [label.get_text() for label in past.get_yticklabels()] == ["▁a", "$b", "(end)"]
    assert [label.get_text() for label in future.get_xticklabels()] == ["▁a", "$b", "(end)"]


def test_long_sentences_stay_on_the_sheet() -> None:
    figure = pfrnn_figure([make("a", "(end)"), make(*["Dampfschifffahrt"] * 90, "(end)")])
    boxes = [axes.get_position() for axes in figure.axes]
    assert len(boxes) == 5
    assert all(0 <= b.x0 < b.x1 <= 1 and 0 <= b.y0 < b.y1 <= 1 for b in boxes)
    for one, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[one + 1 :])


def test_the_same_input_gives_the_same_bytes() -> None:
    for draw in (pfrnn_png, pfrnn_svg):
        once, again = (draw([make("$a^{", "(end)")]) for _ in range(2))
        assert once == again
