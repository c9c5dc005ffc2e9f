"""The three forms of a comparison, cell by cell."""

import io
import json

import pytest
from rich.console import Console

from untold.lab.statistics import comparison_markdown, comparison_record, print_comparison
from untold.metrics.significance import Comparison, PValues, Row, RunScores
from untold.metrics.speed import Speed
from untold.storage.summary import Parameters

ROWS = (
    Row(
        "plain",
        Parameters(1500, 1000, 1500),
        (RunScores((20.0,)), RunScores((30.0,))),
        RunScores((25.0,)),
    ),
    Row(
        "told|2",
        Parameters(2600, 2100, 2400),
        (RunScores((21.0, 23.0)), RunScores((30.0, 30.0))),
        RunScores((25.5, 26.5)),
        (PValues(0.009, 0.001), PValues(0.001, 0.2)),
        PValues(0.0301, 0.0496),
    ),
)
TRAINING = {"plain": Speed((50.0, 60.0), (1.0, 1.0)), "told|2": Speed((40.0, 45.0), (0.8, 0.75))}
DECODING = {"plain": Speed((7.0,), (1.0,)), "told|2": Speed((6.0,), (6 / 7,))}
SCORED = Comparison("BLEU", "nrefs:1", ("mt1", "mt2"), ROWS)
WHOLE = Comparison("BLEU", "nrefs:1", ("mt1", "mt2"), ROWS, TRAINING, DECODING)


def test_markdown_has_the_columns_of_the_paper():
    lines = comparison_markdown(WHOLE).split("\n")
    assert lines[0] == (
        "| model | parameters | w/o embeddings | to translate | training | decoding | mt1 | mt2 | "
        "average | p bootstrap | p randomisation |"
    )
    assert lines[2] == (
        "| plain | 1,500 | 1,000 | 1,500 | 1.00× | 1.00× | 20.00 | 30.00 | 25.00 |  |  |"
    )
    assert lines[3] == (
        "| told\\|2 | 2,600 | 2,100 | 2,400 | 0.78× (0.75 to 0.80) | 0.86× | 22.00 ± 1.41** | "
        "30.00 ± 0.00 | 26.00 ± 0.71* (+1.00) | 0.0301 | 0.0496 |"
    )
    assert "55 target tokens/s in training, 7 words/s in decoding" in lines[-1]


def test_without_a_race_there_are_no_speeds():
    markdown = comparison_markdown(SCORED)
    assert "training" not in markdown and "speeds" not in markdown
    assert comparison_record(SCORED)["rows"][1]["training"] is None


def test_the_record_holds_all_that_was_measured():
    record = json.loads(json.dumps(comparison_record(WHOLE), allow_nan=False))
    assert record["baseline"] == "plain" and record["tests"] == ["mt1", "mt2"]
    first, second = record["rows"]
    assert first["average"] == {"mean": 25.0, "deviation": None, "values": [25.0], "p": None}
    assert second["parameters"]["to_translate_with"] == 2400
    assert second["training"] == {"rate": 42.5, "ratio": 0.775, "ratios": [0.8, 0.75]}
    assert second["scores"]["mt2"]["p"] == {"bootstrap": 0.001, "randomisation": 0.2}
    assert second["runs"] == 2 and second["difference"] == pytest.approx(1.0)


def test_the_terminal_shows_every_cell_on_one_line_each():
    out = io.StringIO()
    print_comparison(WHOLE, Console(file=out))
    lines = [line for line in out.getvalue().split("\n") if line.strip().startswith("told")]
    (line,) = lines
    for cell in ("2,600", "0.78× (0.75 to 0.80)", "22.00 ± 1.41**", "26.00 ± 0.71* (+1.00)"):
        assert cell in line
    assert "** p < 0.01" in out.getvalue()


def test_a_baseline_that_says_nothing_has_no_speed_to_compare_with():
    mute = {name: Speed((0.0,), ()) for name in ("plain", "told|2")}
    row = comparison_markdown(Comparison("BLEU", "", ("a", "b"), ROWS, {}, mute)).split("\n")[3]
    assert "| - |" in row
