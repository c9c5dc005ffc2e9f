"""The three forms of a comparison, cell by cell."""

import io
import json

import pytest
from rich.console import Console

from untold.metrics.comparison import (
    Comparison,
    Row,
    RunScores,
    comparison_markdown,
    comparison_record,
    print_comparison,
)
from untold.metrics.significance import PValues
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
WHOLE = Comparison("BLEU", "nrefs:1", ("mt1", "mt2"), ROWS)


def test_markdown_has_the_columns_of_the_paper():
    lines = comparison_markdown(WHOLE).split("\n")
    assert lines[0] == (
        "| model | parameters | w/o embeddings | to translate | mt1 | mt2 | average | "
        "p bootstrap | p randomisation |"
    )
    assert lines[2] == ("| plain | 1,500 | 1,000 | 1,500 | 20.00 | 30.00 | 25.00 |  |  |")
    assert lines[3] == (
        "| told\\|2 | 2,600 | 2,100 | 2,400 | 22.00 ± 1.41** | "
        "30.00 ± 0.00 | 26.00 ± 0.71* (+1.00) | 0.0301 | 0.0496 |"
    )


def test_the_record_holds_all_that_was_measured():
    record = json.loads(json.dumps(comparison_record(WHOLE), allow_nan=False))
    assert record["baseline"] == "plain" and record["tests"] == ["mt1", "mt2"]
    first, second = record["rows"]
    assert first["average"] == {"mean": 25.0, "deviation": None, "values": [25.0], "p": None}
    assert second["parameters"]["to_translate_with"] == 2400
    assert second["scores"]["mt2"]["p"] == {"bootstrap": 0.001, "randomisation": 0.2}
    assert second["runs"] == 2 and second["difference"] == pytest.approx(1.0)


def test_the_terminal_shows_every_cell_on_one_line_each():
    out = io.StringIO()
    print_comparison(WHOLE, Console(file=out))
    lines = [line for line in out.getvalue().split("\n") if line.strip().startswith("told")]
    (line,) = lines
    for cell in ("2,600", "22.00 ± 1.41**", "26.00 ± 0.71* (+1.00)"):
        assert cell in line
    assert "** p < 0.01" in out.getvalue()
