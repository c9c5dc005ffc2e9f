"""Figures of long sentences: a strip for each category, and when it is chosen."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

from untold.errors import UntoldError
from untold.explain.explanation import END, Explanation
from untold.explain.figures import MOST_PANELS, draw_shares, share_figure
from untold.explain.write import write_explanations

Make = Callable[..., Explanation]


def words(count: int, stem: str = "word") -> str:
    return " ".join(f"{stem}{n}" for n in range(count))


def strips(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.get_title() in ("PAST", "FUTURE", "REDUNDANT")]


def test_a_strip_for_each_category_has_all_words_and_steps(by_formula: Make) -> None:
    made = by_formula("a b c", "A B C D")
    drawn = strips(share_figure([made], "overview"))
    assert [axes.get_title() for axes in drawn] == ["PAST", "FUTURE", "REDUNDANT"]
    for category, axes in enumerate(drawn):
        (image,) = axes.get_images()
        assert image.get_clim() == (0.0, 1.0)
        np.testing.assert_allclose(image.get_array(), made.shares[:, :, category].T)
        columns = [label.get_text() for label in axes.get_xticklabels()]
        assert columns == ["A", "B", "C", "D", END]
    assert [label.get_text() for label in drawn[0].get_yticklabels()] == ["a", "b", "c"]


def test_a_turn_is_framed_where_the_word_is_past(by_formula: Make) -> None:
    past, future, redundant = strips(share_figure([by_formula("a b", "A B C")], "overview"))
    for axes in (past, future):
        places = {(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in axes.patches}
        assert places == {(1, 0), (2, 1)}
        assert {to_hex(patch.get_edgecolor()) for patch in axes.patches} == {"#d62728"}
    assert not redundant.patches


@pytest.mark.parametrize("counts", [(MOST_PANELS + 1, 2), (2, MOST_PANELS + 1)])
def test_the_length_of_either_side_chooses(by_formula: Make, counts: tuple[int, int]) -> None:
    long = by_formula(words(counts[0]), words(counts[1], "wort"))
    short = by_formula(words(MOST_PANELS), words(MOST_PANELS))
    assert len(strips(share_figure([long]))) == 3
    assert len(strips(share_figure([short]))) == 0
    assert len(strips(share_figure([long], "panels"))) == 0
    both = share_figure([short, long])
    assert len(strips(both)) == 3 and len(both.axes) == MOST_PANELS + 1 + 3 + 1
    captions = " ".join(text.get_text() for text in both.texts)
    assert "Each panel" in captions and "Each column" in captions


def test_a_long_sentence_is_small(by_formula: Make) -> None:
    made = by_formula(words(46), words(48, "wort"))
    height, width = imread(BytesIO(draw_shares([made], "png"))).shape[:2]
    assert height * width < 0.2 * 2167 * 10104 and max(height, width) < 3200


def test_very_long_sentences_stand_one_below_the_other_on_the_sheet(by_formula: Make) -> None:
    made = by_formula(words(90), words(120, "wort"))
    drawn = strips(share_figure([made, by_formula("a", "b")], "overview"))
    boxes = [axes.get_position() for axes in drawn]
    assert len({round(box.x0, 6) for box in boxes[:3]}) == 1
    assert all(0 <= b.x0 < b.x1 <= 1 and 0 <= b.y0 < b.y1 <= 1 for b in boxes)
    for one, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[one + 1 :])


def test_words_are_not_formulas_and_bytes_stay_the_same(by_formula: Make) -> None:
    made = by_formula("$5 & <b> $\\frac$", "$a^{ $b$ " + "x" * 90)
    for kind in ("png", "svg"):
        once, again = (draw_shares([made], kind, "overview") for _ in range(2))
        assert once == again


def test_a_figure_is_chosen_by_name_and_refused_elsewhere(by_formula: Make, tmp_path: Path) -> None:
    made = by_formula("a b", "A B")
    for kind in ("auto", "panels", "overview"):
        write_explanations(tmp_path / f"{kind}.svg", [made], kind)
    panels, overview = ((tmp_path / f"{kind}.svg").read_bytes() for kind in ("panels", "overview"))
    assert (tmp_path / "auto.svg").read_bytes() == panels != overview
    with pytest.raises(UntoldError, match=r"--figure overview: .*page\.html is no figure"):
        write_explanations(tmp_path / "page.html", [replace(made)], "overview")


def falling_back(by_formula: Make) -> Explanation:
    """The first word is told, untold again and told; the third is mostly neither when it turns."""
    made = by_formula("a b c", "A B C D")
    shares = made.shares.copy()
    shares[3, 0] = [0.25, 0.625, 0.125]
    shares[3:, 2] = [0.25, 0.125, 0.625]
    return replace(made, shares=shares)


def test_a_word_that_falls_back_is_marked_and_one_that_is_neither_is_not(by_formula: Make) -> None:
    made = falling_back(by_formula)
    frames = {
        (patch.get_x() + 0.5, patch.get_y() + 0.5): patch.get_linestyle() == "solid"
        for patch in strips(share_figure([made], "overview"))[0].patches
    }
    assert frames == {(1, 0): True, (2, 1): True, (3, 0): False, (4, 0): True}
    figure = share_figure([made], "panels")
    fourth = next(axes for axes in figure.axes if axes.get_title() == "D")
    assert [patch.get_y() + 0.5 for patch in fourth.patches] == [0, 0]  # again, and soon told
    assert any("Dotted: it has fallen back" in text.get_text() for text in figure.texts)
    plain = share_figure([by_formula("a", "A")], "panels")
    assert not any("Dotted" in text.get_text() for text in plain.texts)
