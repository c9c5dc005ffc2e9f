"""The whole objective under autocast: layers multiply in bf16, routing and losses do not."""

import pytest
import torch

from toys import separator, toy_batch, toy_model
from untold.config import TrainConfig
from untold.models.layers import full_precision
from untold.training.losses.objective import Objective

KINDS = ["none", "gdr-dot", "gdr-said", "gdr-mlp", "clf", "attn"]


def learn(kind, precision, **settings):
    """The parts of the loss, and all gradients by name."""
    model = toy_model(separator=separator(kind, lexicon=4), **settings)
    config = TrainConfig(precision=precision, bca_weight=0.1, counterfactual=1.0)
    torch.manual_seed(1)
    parts = Objective(model, config).backward(toy_batch([(3, 5), (4, 2), (6, 7)]), 1, 10)
    return parts, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in KINDS),
        ("none", {"copying": True}),
        ("gdr-said", {"backbone": "rnmt"}),
        ("gdr-said", {"backbone": "pfrnn"}),
    ],
)
def test_autocast_changes_losses_and_gradients_by_rounding_alone(kind, settings):
    expected, wide = learn(kind, "fp32", **settings)
    found, narrow = learn(kind, "bf16", **settings)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.dtype is torch.float32, name
        torch.testing.assert_close(value, expected[name], rtol=0.02, atol=0.01, msg=name)
    assert narrow.keys() == wide.keys()
    for name, gradient in narrow.items():
        assert bool(gradient.isfinite().all()), name
        if name.startswith(("past_future.", "backbone.decoder_norm.")):  # near to the losses
            difference = float((gradient - wide[name]).norm())
            assert difference < 0.25 * float(wide[name].norm()) + 1e-3, name


def test_products_are_whole_within_the_block_and_narrow_around_it():
    one = torch.full((1, 1), 1 + 2**-12)
    with torch.autocast("cpu", torch.bfloat16):
        assert float(one @ one) == 1
        with full_precision(one):
            assert float(one @ one) > 1
        assert float(one @ one) == 1
