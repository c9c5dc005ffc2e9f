"""Coverage in attention: against NumPy loops, from one step to the next, and from nothing."""

import numpy as np
import pytest
import torch

from numpy_rnmt import NumpyRnmt
from toys import SHAPES, toy_batch, toy_model
from untold.config import ModelConfig
from untold.models.backbone import Widths
from untold.models.build import build_model
from untold.models.rnmt import LinguisticCoverage
from untold.training.warm_start import warm_start

BATCH = toy_batch([(4, 6), (1, 2), (3, 5)])
KINDS = ["linguistic", "neural"]
CASES = [("rnmt", None, kind) for kind in KINDS] + [("pfrnn", "gru-i", "neural")]


def outputs_of(model):
    return model(BATCH.source, BATCH.source_mask, BATCH.prefix, attention=True)


@pytest.mark.parametrize(("backbone", "layer", "kind"), CASES)
@torch.no_grad()
def test_it_is_its_formulas(backbone, layer, kind):
    model = toy_model(backbone=backbone, attention_coverage=kind).double()
    outputs, oracle = outputs_of(model), NumpyRnmt(model, layer, kind)
    for row in range(3):
        real, length = (int(m[row].sum()) for m in (BATCH.source_mask, BATCH.target_mask))
        h = oracle.encode(BATCH.source[row, :real].numpy())
        found = oracle.decode(h, BATCH.prefix[row, :length].numpy())
        attention = outputs.attention[row, :length, :real].numpy()
        np.testing.assert_allclose(attention, found.attention, atol=1e-12)
        np.testing.assert_allclose(outputs.states[row, :length].numpy(), found.states, atol=1e-12)
        logits = model.logits(outputs.holistic)[row, :length].numpy()
        np.testing.assert_allclose(logits, found.logits, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_what_was_covered_changes_what_is_attended_to(kind):
    model = toy_model(backbone="rnmt", attention_coverage=kind)
    with_it = outputs_of(model).attention
    model.backbone.coverage.key.weight.zero_()
    without = outputs_of(model).attention
    torch.testing.assert_close(with_it[:, 0], without[:, 0])  # nothing is covered yet
    assert (with_it[0, 1:] - without[0, 1:]).abs().max() > 1e-2


@torch.no_grad()
def test_linguistic_coverage_is_a_sum_over_fertility():
    module = LinguisticCoverage(Widths(5, 7, 3))
    words = module.remember(torch.linspace(-2, 2, 30).view(2, 3, 5))
    assert words.shape == (2, 3, 1) and words.min() > 0 and words.max() < 2
    covered, weights = torch.zeros(2, 4, 3, 1), torch.full((2, 4, 3), 1 / 3)
    for _ in range(6):
        covered = module(words, covered, weights, torch.zeros(2, 4, 7))
    torch.testing.assert_close(covered, (2 / words)[:, None].expand(2, 4, 3, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backbone", ["rnmt", "pfrnn"])
@torch.no_grad()
def test_a_model_that_starts_from_one_without_begins_as_it_to_the_last_bit(backbone, kind):
    plain = toy_model(backbone=backbone)
    settings = SHAPES[backbone] | {"backbone": backbone, "attention_coverage": kind}
    model = build_model(ModelConfig.model_validate(settings), (13, 13), shared=True).eval()
    report = warm_start(model, plain)
    assert not report.ignored
    assert all(name.startswith("backbone.coverage.") for name in report.new)
    torch.testing.assert_close(
        *(m.logits(outputs_of(m).holistic) for m in (model, plain)), rtol=0, atol=0
    )


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_memory_of_hypotheses_has_their_coverage(kind):
    model = toy_model(backbone="rnmt", attention_coverage=kind)
    source = model.encode(BATCH.source, BATCH.source_mask)
    state = model.start(source, 2)
    width = 1 if kind == "linguistic" else 10
    assert state.covered.shape == (6, 5, width) and not state.covered.any()
    after = model.step(source, torch.tensor([[4, 5]] * 3), state).state
    assert after.covered.any() and not state.covered.any()
    assert torch.equal(after.select(torch.tensor([5, 0])).covered, after.covered[[5, 0]])
