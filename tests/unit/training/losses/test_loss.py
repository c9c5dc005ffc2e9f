"""The context of losses: what is shared is computed once, and only if a loss asks for it."""

import pytest
import torch

from toys import SEPARATORS, separator, toy_batch, toy_model
from untold.config import TrainConfig
from untold.training.losses.loss import Loss, LossContext

BATCH = toy_batch([(4, 6), (1, 0), (3, 5)])


def context_of(model, **settings):
    config = TrainConfig.model_validate({"counterfactual": 1.0} | settings)
    outputs = model(BATCH.source, BATCH.source_mask, BATCH.prefix)
    return LossContext(model, outputs, BATCH, config, 1)


def test_a_shared_result_is_computed_once_for_each_function():
    context, calls = context_of(toy_model()), []

    def one(given):
        calls.append(given)
        return len(calls)

    def other(given):
        return (given.step, context.once(one))

    assert [context.once(one), context.once(one), context.once(other)] == [1, 1, (1, 1)]
    assert calls == [context]
    assert context_of(toy_model()).once(one) == 2, "another batch, another result"


@pytest.mark.parametrize("name", SEPARATORS)
def test_the_counterfactual_pass_is_made_once_and_only_when_asked_for(name, monkeypatch):
    model, calls = toy_model(separator=separator(name)), []
    context, decode = context_of(model), model.decode
    before = torch.random.get_rng_state()

    def count(*given):
        calls.append(given)
        return decode(*given)

    monkeypatch.setattr(model, "decode", count)
    assert context.damped_embedding is context.damped_embedding
    assert torch.equal(before, torch.random.get_rng_state()) and not calls
    cut, separated = context.counterfactual
    assert context.counterfactual[0] is cut and len(calls) == 1
    assert separated.shares.shape[:2] == cut.prefix.shape
    assert cut.rows.tolist() == [0, 2], "the sentence without words cannot be shortened"


def test_no_sentence_chosen_means_no_pass():
    model = toy_model(separator=separator("gdr-dot"))
    assert context_of(model, counterfactual=0.0).counterfactual is None


class Anything(Loss):
    name = "anything"

    def value(self, context):
        return context.outputs.states.sum()


def test_a_loss_without_a_key_has_its_weight_in_train_losses():
    loss = Anything()
    assert loss.weight(TrainConfig()) == 0.0
    assert loss.weight(TrainConfig(losses={"anything": 0.3})) == 0.3
    assert loss.applies(toy_model(), TrainConfig())
    assert loss.auxiliary and not loss.trains_backbone
