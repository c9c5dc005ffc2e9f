"""Past and future layers against NumPy loops, beside the RNMT that they sit on, and as traces."""

import numpy as np
import pytest
import torch

from numpy_rnmt import NumpyRnmt
from toys import SHAPES, toy_batch, toy_model
from untold.config import ModelConfig
from untold.models.backbone import as_inspectable
from untold.models.build import build_model
from untold.training.warm_start import warm_start

BATCH = toy_batch([(4, 6), (1, 2), (3, 5)])
LAYERS = ["gru", "gru-o", "gru-i"]


def outputs_of(model):
    return model(BATCH.source, BATCH.source_mask, BATCH.prefix, attention=True)


@pytest.mark.parametrize("layer", LAYERS)
@torch.no_grad()
def test_it_is_its_formulas(layer):
    model = toy_model(backbone="pfrnn", future_layer=layer).double()
    outputs, oracle = outputs_of(model), NumpyRnmt(model, layer)
    guesses = model.backbone.guesses(outputs.inner_states)
    for row in range(3):
        real, length = (int(m[row].sum()) for m in (BATCH.source_mask, BATCH.target_mask))
        h = oracle.encode(BATCH.source[row, :real].numpy())
        found = oracle.decode(h, BATCH.prefix[row, :length].numpy())
        after, before = (part[row, :length].numpy() for part in vars(outputs.inner_states).values())
        own = {
            "states": outputs.states[row, :length],
            "attention": outputs.attention[row, :length, :real],
            "logits": model.logits(outputs.holistic)[row, :length],
        }
        for name, value in own.items():
            np.testing.assert_allclose(value.numpy(), getattr(found, name), atol=1e-12)
        for side, states in enumerate((found.past, found.future)):
            np.testing.assert_allclose(after[:, side], states[1:], atol=1e-12)
            np.testing.assert_allclose(before[:, side], states[:-1], atol=1e-12)
        for t in range(length):
            past = oracle.difference("past", found.past[t + 1], found.past[t])
            future = oracle.difference("future", found.future[t], found.future[t + 1])
            np.testing.assert_allclose(guesses["past"][row, t].numpy(), past, atol=1e-12)
            np.testing.assert_allclose(guesses["future"][row, t].numpy(), future, atol=1e-12)


@pytest.mark.parametrize("layer", LAYERS)
@torch.no_grad()
def test_a_model_that_starts_from_an_rnmt_begins_as_it_to_the_last_bit(layer):
    plain = toy_model(backbone="rnmt")
    settings = SHAPES["pfrnn"] | {"backbone": "pfrnn", "future_layer": layer}
    model = build_model(ModelConfig.model_validate(settings), (13, 13), shared=True).eval()
    report = warm_start(model, plain)
    assert not report.ignored and set(report.matched) == {n for n, _ in plain.named_parameters()}
    assert all(name.startswith("backbone.layers.") for name in report.new)
    outputs = outputs_of(model)
    assert torch.equal(*(m.logits(outputs_of(m).holistic) for m in (model, plain)))
    assert outputs.inner_states.after.std() > 0.01, "its layers are at work already"


@torch.no_grad()
def test_the_past_begins_empty_and_the_future_as_the_decoder():
    model = toy_model(backbone="pfrnn")
    source = model.encode(BATCH.source, BATCH.source_mask)
    state = model.start(source, 2)
    past, future = state.layers.unbind(1)
    assert not past.any() and torch.equal(future, state.hidden) and future.any()
    assert torch.equal(state.select(torch.tensor([3])).layers, state.layers[3:4])


@torch.no_grad()
def test_step_by_step_the_layers_are_those_of_all_at_once():
    model = toy_model(backbone="pfrnn")
    source = model.encode(BATCH.source, BATCH.source_mask)
    expected, state = model.decode(source, BATCH.prefix).inner_states, model.start(source, 1)
    for t in range(BATCH.prefix.shape[1]):
        decoded, state = model.backbone.step(source, BATCH.prefix[:, t : t + 1], state)
        for name in ("after", "before"):
            found = getattr(decoded.inner_states, name)[:, 0]
            torch.testing.assert_close(found, getattr(expected, name)[:, t], rtol=0, atol=1e-5)


def test_only_a_model_with_layers_has_inner_states():
    for name in ("rnmt", "transformer"):
        model = toy_model(backbone=name)
        assert outputs_of(model).inner_states is None
        assert as_inspectable(model.backbone) is None
    backbone = toy_model(backbone="pfrnn").backbone
    assert as_inspectable(backbone) is backbone


@pytest.mark.parametrize("layer", LAYERS)
def test_the_number_of_parameters_is_that_of_the_formula(layer):
    e, d = 22, 14
    plain, model = toy_model(backbone="rnmt"), toy_model(backbone="pfrnn", future_layer=layer)
    gru = 3 * d * (2 * d + d + 2)
    future = {
        "gru": gru,
        "gru-o": 2 * d * d + d * (d + 1) + d * d + 3 * d * (2 * d + 2),
        "gru-i": gru + d * d,
    }
    heads = 2 * (2 * d * e + e * e)
    expected = gru + future[layer] + 2 * d * (3 * d + e) + heads
    sizes = [sum(p.numel() for p in m.parameters()) for m in (plain, model)]
    assert sizes[1] - sizes[0] == expected
