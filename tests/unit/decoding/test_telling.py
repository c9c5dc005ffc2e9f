"""A search that tells all: what ending costs, and that a search heeds it."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toys import separator, toy_model, words
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.decoding.penalties import Telling, UntoldRule, charge_untold, length_penalty
from untold.errors import UntoldError
from untold.models.seq2seq import NO_SIGNALS, Signals
from untold.models.signals import FUTURE, PAST, REDUNDANT

chances = st.floats(0.0, 1.0)


def shares_of(rows):
    return torch.tensor(rows, dtype=torch.float32)[None, None]


@given(past=chances, future=chances, first=chances)
def test_a_rule_of_its_own_is_the_share_of_future(past, future, first):
    shares = torch.zeros(1, 3)
    shares[0, PAST], shares[0, FUTURE] = past, future
    told = UntoldRule(1.0).log_said(shares, torch.tensor([first])).exp()
    total = max(1e-9, shares[0, PAST].item() + shares[0, FUTURE].item())
    wanted = 1 - min(max(shares[0, FUTURE].item() / total, 1e-4), 1 - 1e-4)
    assert told.item() == pytest.approx(max(wanted, math.exp(-2)), abs=1e-6)


def test_a_calibrated_rule_is_a_logistic_regression():
    rule = UntoldRule(2.0, (0.5, -1.0), 0.25)
    shares = torch.tensor([[0.2, 0.6, 0.2]])
    odds = 0.5 * math.log(0.75 / 0.25) - 1.0 * math.log(0.3 / 0.7) + 0.25
    wanted = 2.0 * math.log(1 - 1 / (1 + math.exp(-odds)))
    lost = rule.lost(shares, torch.tensor([0.3]), torch.tensor([True]))
    assert lost.item() == pytest.approx(wanted, abs=1e-5)
    assert rule.lost(shares, torch.tensor([0.3]), torch.tensor([False])).item() == 0


def test_what_is_told_costs_nothing_and_what_is_untold_much():
    rule, first = UntoldRule(1.0), torch.zeros(1)
    told = rule.lost(torch.tensor([[1.0, 0.0, 0.0]]), first, torch.tensor([True]))
    untold = rule.lost(torch.tensor([[0.0, 1.0, 0.0]]), first, torch.tensor([True]))
    assert -1e-3 < told.item() <= 0
    assert untold.item() == -2, "and never more, so that one false alarm does not decide"


def test_the_first_step_is_remembered():
    words = torch.ones(1, 2, dtype=torch.bool)
    telling = Telling(UntoldRule(1.0, (0.0, 1.0)), words)
    first = telling.after(Signals(assignments=shares_of([[0.1, 0.1, 0.8], [0.5, 0.5, 0.0]])))
    assert torch.equal(first.first, torch.tensor([[0.8, 0.0]]))
    later = first.select(torch.tensor([0])).after(
        Signals(assignments=shares_of([[0.1, 0.9, 0.0], [0.0, 0.1, 0.9]]))
    )
    assert torch.equal(later.first, first.first)
    torch.testing.assert_close(later.lost, first.lost, msg="this rule looks at the first step only")
    assert later.first[0, 0] == first.first[0, 0] and REDUNDANT == 2


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-said", "gdr-mlp"])
def test_a_search_that_sees_everything_finds_the_best_of_all(name):
    """Against the scores of all translations of up to three words, one by one."""
    model = toy_model((9, 9), separator=separator(name))
    ids = torch.cat([words(2, 3, size=9), torch.full((2, 1), SENTENCEPIECE_IDS.eos)], dim=1)
    sentences = Sentences(ids, torch.ones(2, 4, dtype=torch.bool), SENTENCEPIECE_IDS)
    rule = UntoldRule(1.5, (0.8, -0.3), 0.2)
    config = DecodeConfig(
        beam=300, nbest=5, max_length=4, max_ratio=0.001, length_penalty=0.7, tell_all=1.5
    )
    found = search(model, sentences, config, {"assignments"}, rule)
    plain = search(model, sentences, config.model_copy(update={"tell_all": 0.0}), {"assignments"})
    for own, free in zip(found, plain, strict=True):
        assert [each.score for each in own] == sorted((each.score for each in own), reverse=True)
        charged = {each.tokens: charge_untold(each, rule, 0.7).score for each in free}
        for each in own:
            again = replace(
                each,
                score=each.log_probability
                / length_penalty(float(len(each.token_log_probabilities)), 0.7),
            )
            assert charge_untold(again, rule, 0.7).score == pytest.approx(each.score, abs=1e-4)
            assert sum(each.token_log_probabilities) == pytest.approx(
                each.log_probability, abs=1e-4
            )
        assert own[0].score >= max(charged.values()) - 1e-4


def test_a_model_without_past_and_future_is_refused():
    telling = Telling(UntoldRule(1.0), torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(UntoldError, match="tell_all needs a model that separates"):
        telling.after(NO_SIGNALS)


def test_the_strength_has_limits():
    assert DecodeConfig().tell_all == 0, "translations stay as they are unless one asks"
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        DecodeConfig(tell_all=-1.0)
