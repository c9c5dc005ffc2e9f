"""A verdict follows from the figures alone, and the pages are those of the committed results."""

import json
from pathlib import Path

import pytest

from untold.errors import UntoldError
from untold.lab import scores as score_items
from untold.lab.claims import (
    CLAIMS,
    HOLDS,
    NO,
    ResultSet,
    costs_at_most,
    gains,
    grows_with_length,
    is_best_in_the_middle,
    keeps,
    knows_words,
    read_result_set,
    rises,
    separates,
)
from untold.lab.pages import claims_page, find_result_sets, results_page, write_results_page
from untold.lab.registry import ITEMS
from untold.lab.systems import SYSTEMS
from untold.metrics.base import MetricOptions, make_metric
from untold.metrics.comparison import ParallelText, SystemOutputs, Trials, compare_outputs
from untold.storage.summary import Parameters

DOCS = Path(__file__).parents[3] / "docs"


def made(item, figures, **others):
    return ResultSet("set", {item: {"figures": figures, **others}})


def scores(difference, p):
    """Returns figures of BLEU in which GDR differs from the control."""
    own, plain = SYSTEMS["gdr"].title, SYSTEMS["control"].title
    return {
        "systems": {plain: {"bleu": [30.0, 31.0, 32.0]}, own: {"bleu": [31.0, 31.5]}},
        "tests": [
            {
                "system": own,
                "against": plain,
                "difference": difference,
                "p_bootstrap": p,
                "p_randomisation": 0.04,
            }
        ],
    }


@pytest.mark.parametrize(
    ("difference", "p", "verdict"), [(0.5, 0.01, HOLDS), (0.5, 0.06, NO), (-0.5, 0.01, NO)]
)
def test_a_gain_must_be_positive_and_above_chance(difference, p, verdict):
    outcome = gains("table1", "gdr", "control")(made("table1", scores(difference, p)))
    assert outcome.verdict == verdict
    assert f"{difference:+.2f} BLEU" in outcome.numbers and "+1.00, +0.50" in outcome.numbers


def test_a_way_of_searching_is_named_after_its_system():
    figures = scores(0.5, 0.01)
    title = f"{SYSTEMS['gdr'].title}, penalty by past"
    figures["systems"][title] = {"bleu": [30.5]}
    figures["tests"][0]["system"] = title
    outcome = gains("concat", "gdr, penalty by past", "control")(made("concat", figures))
    assert outcome.verdict == HOLDS and "by seed +0.50)" in outcome.numbers
    assert gains("concat", "gdr", "control")(made("concat", figures)) is None


@pytest.mark.parametrize(
    ("difference", "p", "verdict"), [(0.5, 0.01, HOLDS), (-0.5, 0.06, HOLDS), (-0.5, 0.01, NO)]
)
def test_only_a_loss_above_chance_is_one(difference, p, verdict):
    outcome = keeps("table1", "gdr", "control")(made("table1", scores(difference, p)))
    assert outcome.verdict == verdict


def by_title(**values):
    return {SYSTEMS[name].title: value for name, value in values.items()}


CASES = {
    "every seed rises": (
        rises("table3", "macro", [("control", "both")]),
        "table3",
        by_title(control=[{"macro": 0.7}] * 2, both=[{"macro": 0.8}, {"macro": 0.71}]),
        by_title(control=[{"macro": 0.7}] * 2, both=[{"macro": 0.8}, {"macro": 0.69}]),
    ),
    "past and future beat the rule": (
        separates("both"),
        "separation",
        by_title(
            both=[
                {
                    "model": {"auc": 0.97, "flips": 0.9, "accuracy_off_rule": 0.5},
                    "rule": {"auc": 0.94, "flips": 0.8},
                }
            ]
        ),
        by_title(
            both=[
                {
                    "model": {"auc": 0.97, "flips": 0.7, "accuracy_off_rule": 0.5},
                    "rule": {"auc": 0.94, "flips": 0.8},
                }
            ]
        ),
    ),
    "bags know words": (
        knows_words("both", 0.1),
        "overlap",
        by_title(
            both=[
                {
                    "past": 0.7,
                    "future": 0.8,
                    "past_by_frequency": 0.5,
                    "future_by_frequency": 0.6,
                }
            ]
        ),
        by_title(
            both=[
                {
                    "past": 0.7,
                    "future": 0.65,
                    "past_by_frequency": 0.5,
                    "future_by_frequency": 0.6,
                }
            ]
        ),
    ),
    "the middle is best": (
        is_best_in_the_middle("rounds"),
        "figure7",
        {"rounds": {"1": 30.0, "3": 31.0, "5": 30.5}},
        {"rounds": {"1": 30.0, "3": 31.0, "5": 31.5}},
    ),
    "the cost is as claimed": (
        costs_at_most({"both": (0.67, 0.94)}),
        "speed",
        by_title(both=[0.7, 0.95]),
        by_title(both=[0.7, 0.9]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_follows_from_the_figures(name):
    judge, item, true, false = CASES[name]
    assert judge(made(item, true)).verdict == HOLDS
    assert judge(made(item, false)).verdict == NO
    assert judge(ResultSet("empty", {})) is None


@pytest.mark.parametrize(("short", "last", "verdict"), [(2, 3, HOLDS), (2, 1, NO), (-2, -1, NO)])
def test_the_gain_of_long_sources_is_compared_with_that_of_short_ones(short, last, verdict):
    figures = by_title(
        control={"bleu": [[30.0, 20.0, 10.0]], "words": [[8.0, 20.0, 30.0]]},
        both={"bleu": [[30.0 + short, 20.0 + last, 50.0]], "words": [[8.0, 21.0, 1.0]]},
    )
    rows = [["sentences", "900", "50", "2"]]  # two sentences tell nothing
    record = {"tables": [{"columns": ["system", "1-10", "11-20", "21-30"], "rows": rows}]}
    outcome = grows_with_length("control", "both")(made("figure5", figures, **record))
    assert outcome.verdict == verdict and "11-20 words" in outcome.numbers
    assert "21-30" not in outcome.numbers


def test_every_claim_names_an_item_and_can_be_judged_or_says_why_not():
    assert all(
        claim.item in ITEMS and bool(claim.judges) != bool(claim.untestable) for claim in CLAIMS
    )
    page = claims_page(ResultSet("empty", {}))
    assert page.count("not measured yet") == sum(bool(claim.judges) for claim in CLAIMS)


def test_a_damaged_result_is_refused(tmp_path):
    (tmp_path / "table1.json").write_text("{")
    with pytest.raises(UntoldError, match=r"table1\.json.*make it again"):
        read_result_set(tmp_path)


def test_the_page_shows_verdicts_tables_pictures_and_commands(tmp_path):
    record = {
        "title": "Main results",
        "claim": "The paper says so.",
        "command": "untold reproduce table1",
        "tables": [{"title": "BLEU", "columns": ["system", "bleu"], "rows": [["a", "1.00"]]}],
        "pictures": [["bars", "Bars"]],
        "notes": ["a note"],
        "figures": scores(0.5, 0.01),
    }
    (tmp_path / "in" / "captions").mkdir(parents=True)
    (tmp_path / "in" / "captions" / "table1.json").write_text(json.dumps(record))
    page = write_results_page(tmp_path / "in", tmp_path).read_text(encoding="utf-8")
    for part in ("## captions", "untold reproduce table1", "| a | 1.00 |", "in/captions/bars.png"):
        assert part in page
    assert "- captions: **holds**: over control: +0.50 BLEU" in page
    assert "| Routing alone improves a Transformer. | holds |" in page


def test_no_number_of_the_docs_has_drifted():
    """Run: make pages."""
    sets = find_result_sets(DOCS / "evidence")
    assert (DOCS / "results.md").read_text(encoding="utf-8") == results_page(sets, "evidence")


def test_systems_with_fewer_seeds_are_compared_on_those_that_both_have():
    """The third run of the baseline is far better; no run of the other system is its pair."""
    reference = ["a b c d e", "f g h i j"] * 5
    bad, good = ["a b c d x"] * 10, reference
    size = Parameters(1, 1, 1)
    outputs = [
        SystemOutputs("plain", size, [[bad], [bad], [good]]),
        SystemOutputs("ours", size, [[bad], [bad]]),
    ]
    tests = [ParallelText("test", reference, reference)]
    metric = make_metric("bleu", MetricOptions()).sacrebleu_metric()

    def compare(some):
        return compare_outputs(metric, some, tests, Trials(50, 1))

    found = score_items._pair_by_seed(compare(outputs), outputs, compare)
    assert compare(outputs).difference(found.rows[1]) < -10
    assert found.difference(found.rows[1]) == 0.0
    assert found.rows[1].average_p_values.randomisation > 0.9
    assert [len(row.average.values) for row in found.rows] == [3, 2]
