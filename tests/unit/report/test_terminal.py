"""The terminal: what is read without colour, and what colour adds."""

import io
from collections.abc import Callable

from rich.console import Console

from untold.analysis.explanation import Explanation
from untold.report.terminal import print_explanations

Make = Callable[..., Explanation]


def printed(explanations: list[Explanation], **settings: object) -> str:
    file = io.StringIO()
    print_explanations(explanations, Console(file=file, width=100, highlight=False, **settings))
    return file.getvalue()


def test_signs_say_how_each_word_stands(by_formula: Make) -> None:
    lines = printed([by_formula("a b c", "A B C")]).split("\n")
    rows = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith(("A", "B", "C", "("))
    }
    assert rows["A"] == ["○a", "○b", "○c"]
    assert rows["B"] == ["»a", "○b", "○c"]
    assert rows["C"] == ["✓a", "»b", "○c"]
    assert rows["(end)"] == ["✓a", "✓b", "»c"]
    assert "✓ told (PAST)" in lines[0] and "– neither (REDUNDANT)" in lines[0]


def test_colour_only_where_it_is_wanted(by_formula: Make) -> None:
    made = [by_formula("a b", "A B")]
    coloured = printed(made, force_terminal=True, color_system="standard", _environ={})
    assert "\x1b[34m✓a" in coloured
    plain = printed(made, force_terminal=True, _environ={"NO_COLOR": "1"})
    assert "✓a" in plain and "\x1b[34m" not in plain


def test_words_are_not_markup(by_formula: Make) -> None:
    text = printed([by_formula("[red]x[/red] [/]", "[bold] :smile:")])
    assert "○[red]x[/red]" in text and "○[/]" in text and "[bold] :smile:" in text
