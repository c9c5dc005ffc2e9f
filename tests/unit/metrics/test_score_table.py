"""Scores for a person: greppable lines, columns on a terminal, and a legend."""

from dataclasses import fields

import pytest

from untold.metrics.base import MetricOptions, Score, legend_lines, make_metric, score_lines
from untold.metrics.separation import Separation, SeparationReport, measure_separation
from untold.registry import METRICS, metrics_with

SCORES = [
    Score("BLEU", 76.114, "tok:13a", "91.8/82.3 BP 0.967"),
    Score("under-coverage", 5.0, "aligner:hmm"),
]


def test_a_line_is_easy_to_search_and_columns_are_easy_to_read():
    assert score_lines(SCORES, aligned=False) == [
        "BLEU 76.11 91.8/82.3 BP 0.967  [tok:13a]",
        "under-coverage 5.00   [aligner:hmm]",
    ]
    aligned = score_lines(SCORES, aligned=True)
    assert aligned == [
        "BLEU            76.11 91.8/82.3 BP 0.967  [tok:13a]",
        "under-coverage   5.00                     [aligner:hmm]",
    ]
    assert score_lines([], aligned=True) == []


def test_a_legend_says_the_same_only_once_and_leaves_out_what_nobody_explains():
    meanings = [("a", "higher is better: x"), ("b", ""), ("c", "higher is better: x"), ("d", "y")]
    assert legend_lines(meanings) == ["", "  a, c (higher is better): x", "  d: y"]
    assert legend_lines([("b", "")]) == []


@pytest.mark.parametrize("name", [name for name in metrics_with("corpus_scores") if name != "cdr"])
def test_every_metric_explains_its_figures(name):
    if name == "rouge":
        pytest.importorskip("rouge_score")
    made = make_metric(name, MetricOptions())
    for score in made.corpus_scores(["a b"], ["a b c d e"], ["a b c d f"]):
        assert score.meaning.startswith(("higher is better", "lower is better")), score.name


def test_cdr_explains_its_figures_and_gleu_has_none_for_a_corpus():
    from untold.metrics.cdr import _MEANINGS, _NAMES

    assert set(_NAMES.values()) | {"macro"} == _MEANINGS.keys()
    assert {*metrics_with("corpus_scores"), "gleu"} == set(METRICS.names)


def test_every_row_of_the_tables_is_explained():
    nothing = measure_separation([])
    explained = dict(SeparationReport(nothing, nothing, None).meanings())
    rows = {each.name.replace("_", " ") for each in fields(Separation)} - {"past course"}
    assert explained.keys() == rows | {"rule", "past at t/T = 0 .. 1", "omission word auc"}
