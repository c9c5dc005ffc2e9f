"""The penalties by hand, who pays for coverage, and who is not asked for it."""

import math
from dataclasses import replace

import pytest
import torch

from toys import EOS, separator, toy_model, words
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Sentences
from untold.decoding.penalties import CoveragePenalty, Covered, coverage_penalty, length_penalty
from untold.errors import UntoldError
from untold.models.signals import Signals

BY_ATTENTION, BY_PAST = CoveragePenalty(2.0, True), CoveragePenalty(2.0, False)


def test_the_penalty_by_hand():
    """Half, a quarter, more than all; what is no word is free."""
    covered = torch.tensor([[0.5, 0.25, 3.0, 0.1], [1.0, 1.0, 1.0, 0.0]])
    real = torch.tensor([True, True, True, False])
    found = coverage_penalty(covered, real, 2.0)
    torch.testing.assert_close(found, torch.tensor([2 * math.log(1 / 8), 0.0]).double())


def test_a_word_never_looked_at_costs_much_but_not_everything():
    found = coverage_penalty(torch.tensor([0.0, 1.0]), torch.tensor([True, True]), 1.0)
    assert float(found) == pytest.approx(math.log(1e-6))


def test_attention_adds_up_and_follows_the_hypotheses():
    ids = torch.tensor([[7, 8, EOS], [9, EOS, 0]])
    words = Sentences(ids, ids != 0, SENTENCEPIECE_IDS).words()
    assert words.tolist() == [[True, True, False], [True, False, False]]
    covered = Covered.nothing(BY_ATTENTION, words, 1)
    first = torch.tensor([[[0.5, 0.25, 0.25]], [[0.75, 0.25, 0.0]]])
    covered = covered.after(Signals(first))
    # Two beams of the second sentence come from its only hypothesis; the first sentence is done.
    covered = covered.select([1], [1, 1])
    covered = covered.after(Signals(torch.tensor([[[0.125, 0.875, 0.0], [0.5, 0.5, 0.0]]])))
    torch.testing.assert_close(covered.amounts[0, :, 0], torch.tensor([0.875, 1.25]))
    expected = torch.tensor([[2 * math.log(0.875), 0.0]]).double()
    torch.testing.assert_close(covered.penalties(), expected)


def test_past_is_what_it_is_now_and_redundant_words_owe_nothing():
    ids = torch.tensor([[7, 8, EOS]])
    covered = Covered.nothing(BY_PAST, ids != EOS, 1)
    before = torch.tensor([[[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]]])
    now = torch.tensor([[[[0.5, 0.5, 0.0], [0.125, 0.25, 0.625], [0.0, 1.0, 0.0]]]])
    covered = covered.after(Signals(assignments=before)).after(Signals(assignments=now))
    expected = 2 * (math.log(0.5) + math.log(0.75))
    assert float(covered.penalties()) == pytest.approx(expected)


def test_whole_targets_are_covered_up_to_their_ends():
    mask = torch.tensor([[True, True, False], [True, True, True]])
    attention = torch.tensor([0.5, 0.25, 9.0])[None, :, None].expand(2, 3, 1)
    assert BY_ATTENTION.of_targets(Signals(attention), mask).tolist() == [[0.75], [9.75]]
    future = torch.tensor([0.75, 0.5, 0.25])[None, :, None, None].expand(2, 3, 1, 3)
    assert BY_PAST.of_targets(Signals(assignments=future), mask).tolist() == [[0.5], [0.75]]


def test_the_best_is_another_one_where_something_was_left_out(table_model):
    """The likelier translation looks at one word, the other at both."""
    a, b, bos = 4, 5, 2
    logits = torch.full((1, 7, 7), -9.0)
    logits[0, bos, a], logits[0, bos, b] = 1.0, 0.5
    logits[0, a, EOS] = logits[0, b, EOS] = 9.0

    class Looking(table_model):
        def step(self, source, last, state, *, attention=False):
            assert attention == self.asked
            step = super().step(source, last, state)
            looks = torch.where(
                last[..., None] == b, torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0])
            )
            looks = torch.cat([looks, torch.zeros_like(looks[..., :1])], -1)
            return replace(step, signals=Signals(attention=looks if attention else None))

    ids = torch.tensor([[0, 1, EOS]])
    sentences = Sentences(ids, torch.ones(1, 3, dtype=torch.bool), SENTENCEPIECE_IDS)
    for beta, best in ((0.0, a), (1.0, b)):
        model = Looking(logits)
        model.asked = beta > 0  # what costs time is not asked for without a penalty
        ((found, *_),) = search(model, sentences, DecodeConfig(coverage_penalty=beta))
        assert found.tokens == (best,) and found.attention is None


def test_an_ensemble_pays_for_the_mean_of_its_members():
    models = [toy_model(separator=separator(name)) for name in ("none", "gdr-dot")]
    ids = words(2, 5)
    sentences = Sentences(ids, torch.ones(2, 5, dtype=torch.bool), SENTENCEPIECE_IDS)
    config = DecodeConfig(beam=3, max_length=6, length_penalty=0.0, coverage_penalty=0.5)
    for hypotheses in search(Ensemble(models), sentences, config, {"attention"}):
        best = hypotheses[0]
        penalty = 0.5 * float(best.attention.sum(0).clamp(max=1.0).log().sum())
        assert best.score == pytest.approx(best.log_probability + penalty, abs=1e-4)


@pytest.mark.parametrize(
    ("source", "message"), [("attention", "shows no attention"), ("past", "separates past and")]
)
def test_a_model_that_does_not_know_is_an_error(table_model, source, message):
    config = DecodeConfig(coverage_penalty=0.1, coverage_source=source)
    ids = torch.zeros(1, 2, dtype=torch.long)
    sentences = Sentences(ids, ids == 0, SENTENCEPIECE_IDS)
    with pytest.raises(UntoldError, match=message):
        search(table_model(torch.zeros(1, 7, 7)), sentences, config)


def test_length_penalty_is_the_formula():
    assert length_penalty(1.0, 0.6) == 1.0
    assert length_penalty(7.0, 1.0) == 2.0
    assert length_penalty(40.0, 0.0) == 1.0
    assert length_penalty(13.0, 2.0) == pytest.approx(9.0)


def test_length_penalty_of_many_lengths_is_that_of_each():
    lengths = torch.tensor([1.0, 2.0, 50.0], dtype=torch.float64)
    expected = [length_penalty(length, 0.6) for length in lengths.tolist()]
    assert length_penalty(lengths, 0.6).tolist() == pytest.approx(expected)
