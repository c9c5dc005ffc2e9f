"""Samples of a vocabulary: what is certain, what is drawn, and that sums come out right."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from untold.models.translation_table import draw_words


@given(
    size=st.integers(1, 40),
    words=st.lists(st.integers(0, 39), max_size=12),
    share=st.floats(0.01, 1.0),
)
def test_certain_words_come_first_and_in_order_and_no_word_comes_twice(size, words, share):
    words = torch.tensor([word % size for word in words], dtype=torch.long)
    sample = draw_words(words, size, share)
    certain = sample.ids[: sample.certain]
    assert torch.equal(certain, certain.sort().values)
    assert set(words.tolist()) <= set(certain.tolist())
    assert len(set(sample.ids.tolist())) == len(sample.ids) == len(sample.log_weights)
    assert bool((sample.log_weights[: sample.certain] == 0).all())
    assert torch.equal(sample.ids[sample.places(words)], words)
    # The weights add up to the vocabulary, so that a sum of ones is exact.
    assert float(sample.log_weights.exp().sum()) == pytest.approx(size, rel=1e-5)


def test_the_share_is_that_of_the_other_words():
    sample = draw_words(torch.tensor([[3, 5], [3, 3]]), 22, 0.25)
    assert sample.ids[:2].tolist() == [3, 5]
    assert (sample.certain, len(sample.ids)) == (2, 2 + 5)


def test_the_mean_of_the_estimates_is_the_sum():
    torch.manual_seed(1)
    values = torch.arange(30).float().square()
    estimates = torch.empty(4000)
    for number in range(4000):
        sample = draw_words(torch.tensor([29, 4]), 30, 0.2)
        estimates[number] = (values[sample.ids] * sample.log_weights.exp()).sum()
    error = estimates.std() / 4000**0.5
    assert float(error) > 0
    assert abs(float(estimates.mean() - values.sum())) < 4 * float(error)


def test_the_whole_vocabulary_takes_no_random_number():
    before = torch.random.get_rng_state()
    sample = draw_words(torch.tensor([7]), 11, 1.0)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(sample.ids, torch.arange(11))
    draw_words(torch.tensor([7]), 11, 0.5)
    assert not torch.equal(torch.random.get_rng_state(), before), "the control"
