"""Both tests against sacreBLEU's own, against loops over texts, and against all that can happen."""

import itertools
import random

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from untold.errors import UntoldError
from untold.metrics import significance
from untold.metrics.base import MetricOptions, corpus_scores, make_metric
from untold.metrics.significance import (
    Differences,
    Paired,
    corpus_value,
    run_trials,
    sentence_statistics,
)

WORDS = ["the", "a", "cat", "dog", "sees", "reads", "book", "moon", "old", "green"]


def make_references(count):
    dice = random.Random(7)
    return [" ".join(dice.choices(WORDS, k=dice.randint(4, 9))) for _ in range(count)]


def with_errors(texts, share, seed):
    """Each word replaced with a chance of `share`."""
    dice = random.Random(seed)
    return [
        " ".join(dice.choice(WORDS) if dice.random() < share else word for word in text.split(" "))
        for text in texts
    ]


REFERENCES = make_references(30)
GOOD, FAIR, POOR = (
    with_errors(REFERENCES, share, seed) for seed, share in enumerate((0.3, 0.34, 0.7))
)


def sacrebleu_metric(name):
    return make_metric(name, MetricOptions("none")).sacrebleu_metric()


METRICS = {name: sacrebleu_metric(name) for name in ("bleu", "chrf")}


def runs(metric, *systems, references=REFERENCES):
    return np.stack([sentence_statistics(metric, texts, references) for texts in systems])


def paired(metric, baseline, system):
    return Paired(runs(metric, baseline), runs(metric, system))


def dice(seed=12345):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", METRICS)
def test_sums_of_statistics_give_the_score_of_the_corpus(name):
    metric = METRICS[name]
    (expected,) = corpus_scores(FAIR, REFERENCES, [name], tokenize="none")
    found = corpus_value(metric, sentence_statistics(metric, FAIR, REFERENCES).sum(0))
    assert found == pytest.approx(expected.value)
    real = run_trials(metric, paired(metric, GOOD, FAIR), 1, dice()).real
    (other,) = corpus_scores(GOOD, REFERENCES, [name], tokenize="none")
    assert real == pytest.approx(expected.value - other.value) and abs(real) > 1


@pytest.mark.parametrize("cells", [1 << 22, 100], ids=["at once", "in portions"])
@pytest.mark.parametrize("name", METRICS)
def test_the_bootstrap_scores_corpora_of_drawn_sentences(name, cells, monkeypatch):
    monkeypatch.setattr(significance, "_CELLS_AT_ONCE", cells)
    metric = METRICS[name]
    found = run_trials(metric, paired(metric, GOOD, FAIR), 7, dice()).resampled
    draws = dice().choice(30, size=(7, 30), replace=True)
    for value, drawn in zip(found, draws, strict=True):
        references = [REFERENCES[k] for k in drawn]
        scores = [
            metric.corpus_score([texts[k] for k in drawn], [references]).score
            for texts in (GOOD, FAIR)
        ]
        assert value == pytest.approx(scores[1] - scores[0])
    assert len(found) == 7 and found.std() > 0.1


def test_the_draws_of_the_bootstrap_are_sacrebleus(monkeypatch):
    """It centres absolute differences instead: that formula on our draws is its p-value."""
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    found = run_trials(METRICS["bleu"], paired(METRICS["bleu"], GOOD, FAIR), 300, dice())
    sizes = np.abs(found.resampled)
    theirs = (1 + (sizes - sizes.mean() > abs(found.real)).sum()) / 301
    systems = [("good", GOOD), ("fair", FAIR)]
    metric = {"BLEU": sacrebleu_metric("bleu")}
    _, scores = PairedTest(systems, metric, [REFERENCES], test_type="bs", n_samples=300)()
    assert scores["BLEU"][1].p_value == pytest.approx(theirs)
    assert 0.02 < theirs < 0.9


def test_randomisation_agrees_with_sacrebleus(monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    systems = [("good", GOOD), ("fair", FAIR)]
    metric = {"chrF2": sacrebleu_metric("chrf")}
    _, scores = PairedTest(systems, metric, [REFERENCES], test_type="ar", n_samples=1000)()
    trial = run_trials(METRICS["chrf"], paired(METRICS["chrf"], GOOD, FAIR), 1000, dice(3))
    found = trial.p_values().randomisation
    assert found == pytest.approx(scores["chrF2"][1].p_value, abs=0.06)
    assert 0.05 < found < 0.95


def exact_randomisation(metric, baseline, system, references):
    """Over all ways in which the outputs for each sentence can change places."""
    texts = [*baseline, *system]
    orders = list(itertools.permutations(range(len(texts))))

    def difference(choice):
        moved = [
            [texts[order[place]][sentence] for sentence, order in enumerate(choice)]
            for place in range(len(texts))
        ]
        scores = [metric.corpus_score(each, [references]).score for each in moved]
        return np.mean(scores[len(baseline) :]) - np.mean(scores[: len(baseline)])

    real = abs(difference([orders[0]] * len(references)))
    every = [
        abs(difference(choice)) for choice in itertools.product(orders, repeat=len(references))
    ]
    return np.mean([value >= real - 1e-9 for value in every])


@pytest.mark.parametrize(("baseline", "sentences"), [((GOOD,), 6), ((GOOD, FAIR), 3)])
def test_randomisation_comes_near_the_exact_chance(baseline, sentences):
    """Also with two runs on one side and one on the other."""
    metric, references = METRICS["chrf"], REFERENCES[:sentences]
    sides = [[texts[:sentences] for texts in side] for side in (baseline, (POOR,))]
    exact = exact_randomisation(metric, *sides, references)
    given = Paired(*(runs(metric, *side, references=references) for side in sides))
    found = run_trials(metric, given, 1000, dice()).p_values().randomisation
    assert found == pytest.approx(exact, abs=0.05)
    assert 0.005 < exact < 0.9


@pytest.mark.parametrize("name", METRICS)
def test_the_same_system_twice_differs_by_nothing_but_chance(name):
    metric = METRICS[name]
    p = run_trials(metric, paired(metric, FAIR, FAIR), 50, dice()).p_values()
    assert (p.bootstrap, p.randomisation) == (1.0, 1.0)
    both = runs(metric, FAIR, GOOD)
    p = run_trials(metric, Paired(both, both[::-1].copy()), 50, dice()).p_values()
    assert (p.bootstrap, p.randomisation) == (1.0, 1.0)


def test_a_clear_difference_is_no_chance_either_way_round():
    metric = METRICS["bleu"]
    for one, other in ((GOOD, POOR), (POOR, GOOD)):
        p = run_trials(metric, paired(metric, one, other), 99, dice()).p_values()
        assert (p.bootstrap, p.randomisation) == (0.01, 0.01), "the least that 99 trials can say"


def test_p_values_count_both_sides_and_the_difference_itself():
    """By hand: the drawn differences have mean 2 and stray by -3, -1, 0, 1, 3 from it."""
    drawn, swapped = np.array([-1.0, 1, 2, 3, 5]), np.array([-2.5, -0.5, 0.0, 2.0, 1.9])
    p = Differences(2.0, drawn, swapped).p_values()
    assert p.bootstrap == pytest.approx((1 + 2) / 6)
    assert p.randomisation == pytest.approx((1 + 2) / 6)


def test_the_average_of_test_sets_is_tested_trial_by_trial():
    """Differences that cancel in every trial leave the average nothing to find."""
    drawn = np.array([1.0, -4.0, 2.0])
    one, other = Differences(1.0, drawn, -drawn), Differences(3.0, 4 - drawn, drawn)
    both = Differences.average([one, other])
    assert both.real == 2.0
    np.testing.assert_allclose(both.resampled, [2.0, 2.0, 2.0])
    np.testing.assert_allclose(both.exchanged, [0.0, 0.0, 0.0])
    assert both.p_values().bootstrap == both.p_values().randomisation == 1 / 4


def test_the_same_seed_gives_the_same_trials():
    metric = METRICS["bleu"]
    one, same, other = (
        run_trials(metric, paired(metric, GOOD, FAIR), 5, dice(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.resampled, same.resampled)
    assert np.array_equal(one.exchanged, same.exchanged)
    assert not np.array_equal(one.exchanged, other.exchanged)


def test_what_cannot_be_tested_is_an_error():
    with pytest.raises(UntoldError, match="29 translations but 30 references"):
        sentence_statistics(METRICS["bleu"], GOOD[1:], REFERENCES)
    with pytest.raises(UntoldError, match="0 samples test nothing"):
        run_trials(METRICS["bleu"], paired(METRICS["bleu"], GOOD, FAIR), 0, dice())
