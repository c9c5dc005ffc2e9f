"""Pictures: panels, frames, one colour scale, fonts."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from untold.explain import figures as canvas
from untold.explain import fonts
from untold.explain.explanation import END, Explanation
from untold.explain.figures import draw_shares, share_figure, wrap_text
from untold.explain.fonts import display_width, families_for

Make = Callable[..., Explanation]
Draw = Callable[[Sequence[Explanation]], bytes]
panels_png: Draw = partial(draw_shares, file_format="png", kind="panels")
panels_svg: Draw = partial(draw_shares, file_format="svg", kind="panels")


def panels(figure: Figure) -> list:
    return [axes for axes in figure.axes if axes.get_title()]


def test_a_panel_for_each_target_word_and_the_end(by_formula: Make) -> None:
    made = by_formula("a b c", "A B C D")
    figure = share_figure([made], "panels")
    drawn = panels(figure)
    assert [axes.get_title() for axes in drawn] == ["A", "B", "C", "D", END]
    assert len(figure.axes) == len(drawn) + 1  # and one colour bar
    for step, axes in enumerate(drawn):
        (image,) = axes.get_images()
        assert image.get_clim() == (0.0, 1.0)
        np.testing.assert_allclose(image.get_array(), made.shares[step])
        columns = [label.get_text() for label in axes.get_xticklabels()]
        assert columns == ["PAST", "FUTURE", "REDUNDANT"]
    rows = [label.get_text() for label in drawn[0].get_yticklabels()]
    assert rows == ["a", "b", "c"]


def test_a_flip_is_framed_before_and_after(by_formula: Make) -> None:
    drawn = panels(share_figure([by_formula("a b c", "A B C D")], "panels"))
    # Source word i flips with target word i: dashed in panel i, full in panel i + 1.
    expected = [{(0, "--")}, {(0, "-"), (1, "--")}, {(1, "-"), (2, "--")}, {(2, "-")}, set()]
    for axes, frames in zip(drawn, expected, strict=True):
        found = {
            (round(patch.get_y() + 0.5), "-" if patch.get_linestyle() == "solid" else "--")
            for patch in axes.patches
        }
        assert found == frames
        assert all(to_hex(patch.get_edgecolor()) == "#d62728" for patch in axes.patches)
        assert all(patch.get_width() == 3 and patch.get_height() == 1 for patch in axes.patches)


def test_many_words_go_on_below_and_stay_on_the_sheet(by_formula: Make) -> None:
    text = " ".join(["Donaudampfschifffahrtsgesellschaft", "in"] * 20)
    figure = share_figure([by_formula(text, text), by_formula("a", "b")], "panels")
    drawn = panels(figure)
    assert len(drawn) == 41 + 2
    boxes = [axes.get_position() for axes in drawn]
    assert all(0 <= b.x0 < b.x1 <= 1 and 0 <= b.y0 < b.y1 <= 1 for b in boxes)
    assert len({round(box.y0, 6) for box in boxes}) > 2
    for one, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[one + 1 :])


def test_words_are_not_formulas(by_formula: Make) -> None:
    made = by_formula("$5 & $6 <b> $\\frac$ --> x", "$a^{ $b$ $$ \\x")
    for draw in (panels_png, panels_svg):
        assert draw([made])


def test_the_same_input_gives_the_same_bytes(by_formula: Make) -> None:
    for draw in (panels_png, panels_svg):
        once, again = (draw([by_formula("a b", "A B")]) for _ in range(2))
        assert once == again


def test_missing_glyphs_are_said_once(
    by_formula: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_others", dict)  # as on a machine without another font
    assert panels_png([by_formula("布什 为 他", "Bush for him")])
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "为" in error and "Noto Sans CJK" in error


def placeholder_fonts() -> dict[str, str]:
    """Matplotlib's own font of boxes, which has a glyph for everything."""
    return {e.name: e.fname for e in fonts.font_manager.fontManager.ttflist if "Last" in e.name}


@pytest.mark.skipif(not placeholder_fonts(), reason="this matplotlib has no Last Resort font")
def test_a_font_of_boxes_is_no_font(
    by_formula: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = placeholder_fonts().values()
    assert ord("为") in fonts.font_manager.get_font(path).get_charmap(), "the control"
    monkeypatch.setattr(fonts, "_others", placeholder_fonts)
    assert families_for(["a为"]) == (["DejaVu Sans"], "为")
    drawn = panels_svg([by_formula("布什 为", "Bush for")])
    assert b"DejaVuSans" in drawn and b"LastResort" not in drawn
    assert "no font here has 为 什 布: boxes" in capsys.readouterr().err
    monkeypatch.setattr(canvas, "_STYLE", {"font.size": 9.0})
    assert b"LastResort" in panels_svg([by_formula("布什 为", "Bush for")]), "the control"


def test_characters_that_no_font_here_has_are_named(
    by_formula: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unassigned characters stand for those of any script without a font; all fonts are tried."""
    unassigned = "".join(map(chr, range(0xE0F00, 0xE0F18)))
    assert panels_png([by_formula(f"a {unassigned}", "b")])
    error = capsys.readouterr().err
    assert "no font here has U+E0F00 U+E0F01" in error
    assert "U+E0F13 and 4 more characters: boxes stand for them" in error


def test_nothing_is_said_when_all_can_be_written(
    by_formula: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    panels_png([by_formula("Straße é", "שלום هذا")])
    assert capsys.readouterr() == ("", "")


def test_a_font_that_helps_is_taken_and_a_broken_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = fonts.font_manager.findfont("DejaVu Sans")
    assert families_for(["abc"]) == (["DejaVu Sans"], "")
    monkeypatch.setattr(fonts, "_others", lambda: {"Broken": __file__, "Same": own})
    assert families_for(["a你"]) == (["DejaVu Sans"], "你")
    without = iter([{"你", "好"}, {"好"}, set()])
    monkeypatch.setattr(fonts, "_without", lambda characters, path: next(without))
    monkeypatch.setattr(fonts, "_others", lambda: {"Half": own, "Rest": own, "Never": own})
    assert families_for(["你好"]) == (["DejaVu Sans", "Half", "Rest"], "")


def test_chinese_is_wide_and_marks_have_no_width() -> None:
    assert display_width("ab") == 2 and display_width("你好") == 4 and display_width("e\u0301") == 1
    assert wrap_text("你好" * 10, 20) == ("你好" * 5, "你好" * 5)
