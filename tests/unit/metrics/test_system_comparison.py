"""Rows of a comparison against scores of texts, one by one."""

import statistics

import numpy as np
import pytest

from untold.errors import UntoldError
from untold.metrics.base import MetricOptions, corpus_scores, make_metric
from untold.metrics.comparison import (
    ParallelText,
    RunScores,
    SystemOutputs,
    Trials,
    compare_outputs,
)
from untold.metrics.significance import Differences, Paired, run_trials, sentence_statistics
from untold.storage.summary import Parameters

SIZE = Parameters(100, 60, 90)
REFERENCES = [
    ["the old cat sees a dog", "a dog reads the green book", "the moon is old and green"],
    ["a green moon sees the cat", "the book is old"],
]
TESTS = [ParallelText(name, ["x"] * len(r), r) for name, r in zip("ab", REFERENCES, strict=True)]


def spoilt(words):
    """Translations in which some words are others."""
    table = dict.fromkeys(words.split(" "), "no")
    return [
        [" ".join(table.get(word, word) for word in text.split(" ")) for text in texts]
        for texts in REFERENCES
    ]


BASELINE, BETTER, WORSE = spoilt("the cat"), spoilt("book"), spoilt("the a green")
METRIC = make_metric("chrf", MetricOptions("none")).sacrebleu_metric()


def score(texts, number):
    (found,) = corpus_scores(texts[number], REFERENCES[number], ["chrf"])
    return found.value


def compared(*systems, trials=40):
    return compare_outputs(
        METRIC, [SystemOutputs(n, SIZE, t) for n, t in systems], TESTS, Trials(trials, 5)
    )


def test_scores_averages_and_differences():
    found = compared(("base", [BASELINE]), ("better", [BETTER]))
    for row, texts in zip(found.rows, (BASELINE, BETTER), strict=True):
        expected = [score(texts, 0), score(texts, 1)]
        assert [figure.mean for figure in row.scores] == pytest.approx(expected)
        assert row.average.mean == pytest.approx(sum(expected) / 2)
        assert row.average.deviation is None
    gain = found.rows[1].average.mean - found.rows[0].average.mean
    assert found.difference(found.rows[1]) == pytest.approx(gain) and gain > 1
    assert found.difference(found.rows[0]) == 0
    assert found.metric == "chrF2" and found.tests == ("a", "b")
    for part in ("bs:40", "ar:40", "seed:5", "nc:6"):
        assert part in found.signature


def test_a_family_has_the_mean_and_the_deviation_of_its_runs():
    family = compared(("base", [BASELINE]), ("family", [BETTER, WORSE])).rows[1]
    for number, figure in enumerate(family.scores):
        values = [score(BETTER, number), score(WORSE, number)]
        assert figure.values == pytest.approx(values)
        assert figure.mean == pytest.approx(statistics.fmean(values))
        assert figure.deviation == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    averages = [(score(texts, 0) + score(texts, 1)) / 2 for texts in (BETTER, WORSE)]
    assert family.average.values == pytest.approx(averages)


def test_p_values_are_those_of_the_runs_on_each_set_and_of_their_average():
    row = compared(("base", [BASELINE]), ("family", [BETTER, WORSE])).rows[1]
    chances = []
    for number, references in enumerate(REFERENCES):
        stats = [
            np.stack([sentence_statistics(METRIC, run[number], references) for run in family])
            for family in ([BASELINE], [BETTER, WORSE])
        ]
        dice = np.random.default_rng([5, number])
        chances.append(run_trials(METRIC, Paired(*stats), 40, dice))
    assert row.p_values == tuple(chance.p_values() for chance in chances)
    assert row.average_p_values == Differences.average(chances).p_values()


def test_the_baseline_is_compared_with_nobody_and_the_same_again_is_chance():
    found = compared(("base", [BASELINE]), ("again", [BASELINE]))
    assert found.rows[0].p_values is None and found.rows[0].average_p_values is None
    p = found.rows[1].average_p_values
    assert (p.bootstrap, p.randomisation) == (1.0, 1.0)


def test_other_rows_change_no_row():
    alone = compared(("base", [BASELINE]), ("worse", [WORSE]))
    beside = compared(("base", [BASELINE]), ("better", [BETTER]), ("worse", [WORSE]))
    assert alone.rows[1] == beside.rows[2]


def test_a_single_value_does_not_deviate():
    assert RunScores((3.0,)).deviation is None
    assert RunScores((1.0, 2.0, 3.0)).deviation == 1.0


def test_an_empty_test_set_is_named():
    with pytest.raises(UntoldError, match="test set nothing is empty"):
        compare_outputs(
            METRIC,
            [SystemOutputs("a", SIZE, [[[]]])],
            [ParallelText("nothing", [], [])],
            Trials(1, 1),
        )
