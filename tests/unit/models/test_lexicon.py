"""The lexicon against softmaxes written out."""

import numpy as np
import pytest
import torch

from untold.models import lexicon as module
from untold.models.lexicon import Lexicon


@pytest.fixture
def lexicon():
    torch.manual_seed(1)
    return Lexicon((7, 5), 3)


SOURCE, TARGET = torch.tensor([[4, 1, 6], [2, 2, 0]]), torch.tensor([[3, 0], [4, 3]])


def test_theta_is_a_softmax_over_the_source_vocabulary(lexicon):
    source, target = (p.detach().numpy() for p in lexicon.parameters())
    given_word, given_nothing = lexicon(SOURCE, TARGET)
    for b, t, i in np.ndindex(2, 2, 3):
        scores = np.exp(source @ target[TARGET[b, t]])
        expected = np.log(scores[SOURCE[b, i]] / scores.sum())
        assert given_word[b, t, i].item() == pytest.approx(expected, abs=1e-5)
        scores = np.exp(source @ target[-1])
        expected = np.log(scores[SOURCE[b, i]] / scores.sum())
        assert given_nothing[b, i].item() == pytest.approx(expected, abs=1e-5)


def test_chunks_change_nothing(lexicon, monkeypatch):
    def run():
        lexicon.zero_grad()
        value = lexicon(SOURCE, TARGET)[0]
        value.square().sum().backward()
        return value.detach(), lexicon.source.grad.clone()

    whole = run()
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 7)  # one type at a time
    for one, other in zip(whole, run(), strict=True):
        torch.testing.assert_close(one, other)


def test_no_target_words_at_all(lexicon):
    given_word, given_nothing = lexicon(SOURCE, TARGET[:, :0])
    assert given_word.shape == (2, 0, 3)
    assert given_nothing.shape == (2, 3)
