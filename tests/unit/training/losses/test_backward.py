"""Objective.backward: the gradients of the total, though the second decoder pass comes last."""

import pytest
import torch

from toys import SEPARATORS, separator, toy_batch, toy_model
from untold.config import TrainConfig
from untold.training.losses.objective import Objective

BATCH = toy_batch([(4, 6), (1, 0), (3, 5), (6, 4)])
SHORT = toy_batch([(2, 1), (3, 0)])  # no span can be deleted here
TOKENS = 7
WEIGHTS = {"bow_weight": 0.5, "bca_weight": 0.3, "ends_weight": 0.2, "lexicon_weight": 0.4}
SETTINGS = {
    "everything": ({}, 2),
    "sample": ({"vocabulary_share": 0.5, "bow_share": 0.5}, 2),
    "no bags": ({"bow_weight": 0.0}, 1),
    "no lexicon": ({"lexicon_weight": 0.0}, 1),
    "no deletion": ({"counterfactual": 0.0}, 0),
    "not begun": ({"auxiliary_start": 9}, 2),
    "frozen": ({"freeze_backbone": True}, 2),
    "frozen, not begun": ({"freeze_backbone": True, "auxiliary_start": 9}, 2),
    "a loss after them": ({"word_prediction": 0.3}, 0),
}


def settings(**changes):
    return TrainConfig.model_validate(
        WEIGHTS | {"best_by": "loss", "counterfactual": 0.8, "vocabulary_share": 1.0} | changes
    )


def learnt(model, learn):
    """Calls `learn` with a seed; returns what it returns, all gradients, and the next number."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(3)
    result = learn()
    return result, {name: p.grad for name, p in model.named_parameters()}, torch.rand(())


def compare(model, config, batch):
    """Asserts that both ways to learn agree; returns how many losses were put off."""
    objective = Objective(model, config)

    def at_once():
        losses = objective(batch, 1)
        if losses.total.requires_grad:
            (losses.total / TOKENS).backward()
        return losses.parts

    expected, wanted, next_number = learnt(model, at_once)
    parts, found, drawn = learnt(model, lambda: objective.backward(batch, 1, TOKENS))
    assert torch.equal(drawn, next_number), "random numbers are drawn in the same order"
    torch.testing.assert_close(parts, expected)
    for name, gradient in wanted.items():
        assert (found[name] is None) == (gradient is None), name
        if gradient is not None:
            torch.testing.assert_close(found[name], gradient, msg=lambda m, n=name: n + m)
    return objective.put_off


@pytest.mark.parametrize("batch", [BATCH, SHORT], ids=["deletes", "too short"])
@pytest.mark.parametrize("name", SETTINGS)
def test_gradients_figures_and_draws_are_those_of_the_total(name, batch):
    changes, put_off = SETTINGS[name]
    model = toy_model(
        separator=separator("gdr-dot"),
        word_prediction="word_prediction" in changes,
        dropout=0.2,
    ).double()
    if "freeze_backbone" in changes:
        torch.nn.init.zeros_(model.past_future.fusion.transform.weight)
        model.freeze_backbone()
    assert compare(model.train(), settings(**changes), batch) == put_off


@pytest.mark.parametrize("backbone", ["transformer", "rnmt"])
@pytest.mark.parametrize("name", SEPARATORS)
def test_every_separator_and_backbone_learns_the_same(name, backbone):
    model = toy_model(
        backbone=backbone, separator=separator(name), copying=True, dropout=0.2
    ).double()
    assert compare(model.train(), settings(), BATCH) == 2


def test_the_first_pass_is_freed_before_the_second_begins(monkeypatch):
    model, passes = toy_model(separator=separator("gdr-dot")), []
    decode = type(model).decode

    def watched(self, source, prefix):
        if passes:
            with pytest.raises(RuntimeError, match="second time"):
                passes[0].holistic.sum().backward()
        passes.append(decode(self, source, prefix))
        return passes[-1]

    monkeypatch.setattr(type(model), "decode", watched)
    Objective(model, settings()).backward(BATCH, 1, TOKENS)
    assert len(passes) == 2
