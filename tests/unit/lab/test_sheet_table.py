"""The table of ratings: every figure that was counted, and nothing that a terminal obeys."""

import io
import json

import pytest

from untold.lab.ratings import aggregate_ratings, print_results, results_record
from untold.lab.sheets import KeyRow, RaterFile, Rating, SheetKey
from untold.lab.statistics import SignPatterns
from untold.terminal import SafeConsole


def results(systems=("plain", "gdr"), sentences=3, raters=1):
    """The second system is a grade better, and the first leaves words out."""
    rows = {
        f"r{line}-{place}": KeyRow(system, line, "")
        for line in range(1, sentences + 1)
        for place, system in enumerate(systems)
    }
    ratings = {
        name: Rating(1 + where.line % 3 + systems.index(where.system), False, name.endswith("0"))
        for name, where in rows.items()
    }
    files = [RaterFile(f"rater{n}.csv", but_last(ratings, n), n, ()) for n in range(raters)]
    return aggregate_ratings(SheetKey("s1", systems, rows), files, SignPatterns(99, 1))


def but_last(ratings, count):
    """The last rows are those that a rater left half-filled."""
    kept = list(ratings)[: len(ratings) - count]
    return {name: ratings[name] for name in kept}


def printed(found, terminal=False) -> str:
    stream = io.StringIO()
    console = SafeConsole(
        file=stream, force_terminal=terminal, width=120, highlight=False, emoji=False
    )
    print_results(found, console)
    return stream.getvalue()


def test_the_table_by_hand():
    text = " ".join(printed(results()).split())
    assert "plain 3 3 2.00 [-0.48, 4.48] 0.0 % 100.0 %" in text
    assert "gdr 3 3 3.00 [0.52, 5.48] 0.0 % 0.0 %" in text
    assert "gdr - plain 3 +1.00 (p = 0.2500) +0.0 % (p = 1.0000) -100.0 % (p = 0.2500)" in text
    assert "p: two-sided sign-flip test over sentences (exact)" in text
    assert "agreement: no translation was rated by two raters (1 in all)" in text
    assert "rater0.csv: 6 of 6 translations rated" in text


def test_agreement_and_half_filled_rows_are_said():
    text = printed(results(raters=2))
    assert (
        "agreement on 5 translations: quality alpha 1.000 (Krippendorff, ordinal), "
        "over-translated 100.0 %, under-translated 100.0 % equal marks" in text
    )
    assert "rater1.csv: 5 of 6 translations rated, 1 half-filled and skipped" in text
    same = results(systems=("a",), sentences=1, raters=1)
    same = aggregate_ratings(
        SheetKey("s1", ("a",), {"r1-0": KeyRow("a", 1, "")}), same.raters * 2, SignPatterns()
    )
    assert "alpha undefined, all are equal" in printed(same)
    assert "difference" not in printed(same) and "sign-flip" not in printed(same)


def test_drawn_patterns_are_said():
    assert "(99 patterns, exact up to 20 sentences)" in printed(results(sentences=30))


def test_the_record_is_json_with_everything():
    record = json.loads(json.dumps(results_record(results(raters=2)), allow_nan=False))
    assert record["sheet"] == "s1"
    assert record["raters"][1] == {
        "file": "rater1.csv",
        "rated": 5,
        "half_filled": 1,
        "unrated": 0,
        "shifted_lines": [],
    }
    assert record["systems"][1]["quality"]["mean"] == 3.0
    assert record["pairs"][0]["quality"]["test"] == {"p": 0.25, "patterns": 8, "is_exact": True}
    assert record["agreement"]["alpha"] == 1.0


@pytest.mark.parametrize("name", ["\x1b[2J", "a\rb", "[red]x[/red]", ":smile:", "x" * 300])
def test_names_cannot_command_a_terminal(name):
    text = printed(results(systems=("plain", name)), terminal=True)
    assert "\x1b[2J" not in text and "\r" not in text
    if name.isprintable():
        assert name in printed(results(systems=("plain", name)))
