"""The terminal: what is read without colour, and what colour adds."""

import io
import re
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console

from untold.explain.explanation import Copy, Explanation
from untold.explain.table import print_explanations

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


def test_a_word_that_falls_back_is_marked_and_one_that_is_neither_is_not_just_told(
    by_formula: Make,
) -> None:
    made = by_formula("a b c", "A B C")
    shares = made.shares.copy()
    shares[2, 0] = [0.25, 0.625, 0.125]
    shares[3, 2] = [0.25, 0.125, 0.625]
    lines = printed([replace(made, shares=shares)]).split("\n")
    rows = [line.split() for line in lines]
    assert ["C", "↩a", "»b", "○c"] in rows and ["(end)", "»a", "✓b", "–c"] in rows
    assert lines[0].endswith("» just told   ↩ untold again")
    assert "↩" not in printed([made])


def test_a_copied_word_names_the_word_it_came_from(by_formula: Make) -> None:
    plain = by_formula("a Bo c", "A Bo C")
    lines = printed([replace(plain, copies=(Copy(1, 1, 0.75),))]).split("\n")
    assert [line.split("  ")[0] for line in lines if line.startswith("Bo")] == ["Bo ❐Bo"]
    assert "❐ copied from" in lines[0]
    assert "❐" not in printed([plain])


def test_words_that_are_probably_untold_or_added_have_a_number(by_formula: Make) -> None:
    """From one half on: source words at the end alone, target words where they are said."""
    judged = {"untold": (0.5, 0.499, 0.9), "added": (0.1, 0.75)}
    made = replace(by_formula("a b c", "A B"), **judged)
    rows = [line.split() for line in printed([made]).split("\n")]
    assert ["A", "○a", "○b", "○c"] in rows
    assert ["B", "(added", "0.75)", "»a", "○b", "○c"] in rows
    assert ["(end)", "✓a", "(untold", "0.50)", "»b", "○c", "(untold", "0.90)"] in rows
    shown = printed([made], force_terminal=True, _environ={"NO_COLOR": "1"})
    assert "\x1b[4m✓a" in shown and "\x1b[4mB" in shown
    assert len(re.findall(r"\x1b\[(?:[0-9;]*;)?4[;m]", shown)) == 3


def test_a_model_without_calibration_names_the_cure_in_one_line(by_formula: Make) -> None:
    plain = by_formula("a b", "A B")
    text = printed([plain, plain])
    assert [line for line in text.split("\n") if "run untold calibrate" in line] == [
        "no word is judged to be untold or added: run untold calibrate first"
    ]
    assert "calibrate" not in printed([replace(plain, untold=(0.1, 0.2), added=(0.1, 0.2))])


def test_colour_only_where_it_is_wanted(by_formula: Make) -> None:
    made = [by_formula("a b", "A B")]
    coloured = printed(made, force_terminal=True, color_system="standard", _environ={})
    assert "\x1b[34m✓a" in coloured
    plain = printed(made, force_terminal=True, _environ={"NO_COLOR": "1"})
    assert "✓a" in plain and "\x1b[34m" not in plain


def test_words_are_not_markup(by_formula: Make) -> None:
    text = printed([by_formula("[red]x[/red] [/]", "[bold] :smile:")])
    assert "○[red]x[/red]" in text and "○[/]" in text and "[bold] :smile:" in text
