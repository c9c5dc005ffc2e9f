"""The lexicon against softmaxes written out."""

import numpy as np
import pytest
import torch

from untold.models import translation_table as module
from untold.models.translation_table import TranslationTable, log_totals, plain_log_totals


@pytest.fixture
def lexicon():
    torch.manual_seed(1)
    return TranslationTable((7, 5), 3)


SOURCE, TARGET = torch.tensor([[4, 1, 6], [2, 2, 0]]), torch.tensor([[3, 0], [4, 3]])


def test_theta_is_a_softmax_over_the_other_vocabulary(lexicon):
    source, target = (p.detach().numpy() for p in lexicon.parameters())
    of_source, of_target = (values.detach().numpy() for values in lexicon(SOURCE, TARGET))
    x, y = (np.pad(words, ((0, 0), (0, 1)), constant_values=-1) for words in (SOURCE, TARGET))
    for b, t, i in np.ndindex(2, 3, 4):
        scores = np.exp(source @ target.T)
        if i < 3:  # nothing, the last word of each side, is only given
            expected = scores[x[b, i], y[b, t]] / scores[:, y[b, t]].sum()
            assert np.exp(of_source[b, t, i]) == pytest.approx(expected, rel=1e-5)
        if t < 2:
            expected = scores[x[b, i], y[b, t]] / scores[x[b, i]].sum()
            assert np.exp(of_target[b, t, i]) == pytest.approx(expected, rel=1e-5)


def test_chunks_change_nothing(lexicon, monkeypatch):
    def run():
        lexicon.zero_grad()
        values = lexicon(SOURCE, TARGET)
        sum(value.square().sum() for value in values).backward()
        return *(value.detach() for value in values), lexicon.source.grad.clone()

    whole = run()
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 7)  # one type at a time
    for one, other in zip(whole, run(), strict=True):
        torch.testing.assert_close(one, other)


def test_no_target_words_at_all(lexicon):
    of_source, of_target = lexicon(SOURCE, TARGET[:, :0])
    assert of_source.shape == (2, 1, 3)
    assert of_target.shape == (2, 0, 4)


@pytest.mark.parametrize("at_once", [1, 40, 10_000])
def test_log_totals_are_a_weighted_logsumexp_in_value_and_gradient(at_once, monkeypatch):
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", at_once)
    torch.manual_seed(3)
    given = (3 * torch.randn(7, 5, dtype=torch.float64)).requires_grad_()
    others = (3 * torch.randn(13, 5, dtype=torch.float64)).requires_grad_()
    log_weights, factors = torch.randn(13).double(), torch.randn(7).double()
    found = []
    for totals in (log_totals, plain_log_totals):
        value = totals(given, others, log_weights)
        found.append((value, *torch.autograd.grad(value @ factors, (given, others))))
    torch.testing.assert_close(*found)


def test_normalisers_of_a_sample_are_right_on_average():
    torch.manual_seed(4)
    lexicon = TranslationTable((60, 50), 3)
    with torch.no_grad():
        exact = [values.exp() for values in lexicon(SOURCE, TARGET)]
        draws = [[v.exp() for v in lexicon(SOURCE, TARGET, 0.3)] for _ in range(1500)]
    for whole, sampled in zip(exact, zip(*draws, strict=True), strict=True):
        normalisers = 1 / torch.stack(sampled)  # exp(score) cancels in the ratio to the exact one
        ratios = normalisers * whole
        error = ratios.std(0) / len(draws) ** 0.5
        assert bool((error > 0).all()), "something is drawn"
        assert bool(((ratios.mean(0) - 1).abs() < 5 * error).all())
