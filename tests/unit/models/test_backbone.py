"""The interface of backbones: what it consists of, and the output layer with and without a bias."""

import re
from pathlib import Path

import pytest
import torch

from toys import all_scores, compute_losses, shape_of, toy_batch, toy_model
from untold.config import ModelConfig, TrainConfig
from untold.models.backbone import Backbone, OutputLayer
from untold.models.build import build_model
from untold.training.warm_start import warm_start

DOCS = Path(__file__).parents[3] / "docs" / "extend.md"
BATCH = toy_batch([(4, 6), (1, 2), (3, 5)])


def wave(*shape):
    return torch.arange(torch.Size(shape).numel()).double().mul(1.7).sin().view(shape)


def test_the_documentation_lists_the_methods_of_the_interface_and_no_others():
    own = {name for name, value in vars(Backbone).items() if callable(value) and name[0] != "_"}
    table = DOCS.read_text().split("| method |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)\(", table, re.MULTILINE)) == own


@pytest.mark.parametrize("has_bias", [False, True])
def test_augmented_products_are_the_logits(has_bias):
    layer = OutputLayer(wave(13, 5), wave(13) if has_bias else None)
    readout = wave(7, 5)
    expected = readout @ layer.weight.T + (layer.bias if has_bias else 0)
    torch.testing.assert_close(layer.logits(readout), expected)
    states, weight = layer.augmented(readout)
    torch.testing.assert_close(states @ weight.T, expected)
    assert (states is readout and weight is layer.weight) is not has_bias


@pytest.mark.parametrize("backbone", ["transformer", "rnmt", "pfrnn"])
def test_a_bias_is_the_last_thing_made_and_begins_at_zero(backbone):
    made, settings = [], shape_of(backbone) | {"backbone": backbone, "separator": {"kind": "gdr"}}
    for has_bias in (False, True):
        torch.manual_seed(9)
        config = ModelConfig.model_validate(settings | {"output_bias": has_bias})
        made.append(build_model(config, (13, 13), shared=True).eval())
    plain, biased = (dict(model.named_parameters()) for model in made)
    assert biased.keys() - plain.keys() == {"backbone.output_bias"}
    assert not biased["backbone.output_bias"].any() and biased["backbone.output_bias"].numel() == 13
    assert all(torch.equal(biased[name], value) for name, value in plain.items())
    report = warm_start(made[1], made[0])
    assert report.new == ("backbone.output_bias",)


@pytest.mark.parametrize("settings", [{}, {"copying": True}], ids=["generating", "copying"])
@pytest.mark.parametrize("backbone", ["transformer", "rnmt"])
def test_the_word_loss_knows_the_bias(backbone, settings):
    """Against the log-probabilities that scoring reports, and their gradients."""
    model = toy_model(backbone=backbone, output_bias=True, **settings).double()
    config = TrainConfig(label_smoothing=0.0)
    real, labels = BATCH.target_mask, BATCH.labels[BATCH.target_mask]
    gradients = []
    for fused in (True, False):
        model.zero_grad()
        if fused:
            loss = compute_losses(model, BATCH, config, 1).total
        else:
            outputs = model(BATCH.source, BATCH.source_mask, BATCH.prefix)
            logits = all_scores(model, outputs)[real]
            loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        loss.backward()
        gradients.append({"loss": loss.detach()} | {n: p.grad for n, p in model.named_parameters()})
    assert gradients[0]["backbone.output_bias"].abs().max() > 1e-2
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], msg=name)


def test_a_bias_moves_the_probability_of_its_word():
    model = toy_model(output_bias=True)
    outputs = model(BATCH.source, BATCH.source_mask, BATCH.prefix)
    before = model.logits(outputs.holistic)
    with torch.no_grad():
        model.backbone.output_bias[7] += 3.0
    difference = model.logits(outputs.holistic) - before
    expected = torch.zeros(13).index_fill(0, torch.tensor([7]), 3.0)
    torch.testing.assert_close(difference, expected.expand_as(difference), rtol=0, atol=1e-5)


def test_the_bias_has_the_size_of_the_target_vocabulary():
    model = toy_model((17, 13), shared=False, output_bias=True)
    assert model.backbone.output_bias.shape == (13,)
