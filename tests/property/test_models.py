"""For any shape: padding changes nothing, and step by step is all at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from toys import RUN_SHAPES, shape_of, toy_batch, toy_model
from untold.config import BACKBONES

LENGTHS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5)
# Hugging Face models are slower, and keep these rules in the conformance tests.
NAMES = [name for name in BACKBONES.names if name != "huggingface"]
MODELS = {name: toy_model(backbone=name, **shape_of(name, RUN_SHAPES)) for name in NAMES}


@pytest.mark.parametrize("backbone", NAMES)
@settings(deadline=None, max_examples=25)
@given(lengths=LENGTHS)
@torch.no_grad()
def test_each_pair_of_a_batch_is_as_it_is_alone(backbone, lengths):
    model, batch = MODELS[backbone], toy_batch(lengths)
    together = model(batch.source, batch.source_mask, batch.prefix, attention=True)
    for row, (source, target) in enumerate(lengths):
        ids, prefix = batch.source[row : row + 1, : source + 1], batch.prefix[row : row + 1]
        mask = torch.ones(1, source + 1, dtype=torch.bool)
        alone = model(ids, mask, prefix[:, : target + 1], attention=True)
        one = together.states[row, : target + 1]
        torch.testing.assert_close(one, alone.states[0], rtol=0, atol=1e-5)
        weights = together.attention[row, : target + 1, : source + 1]
        torch.testing.assert_close(weights, alone.attention[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("backbone", NAMES)
@settings(deadline=None, max_examples=25)
@given(lengths=LENGTHS, beams=st.integers(1, 3), data=st.data())
@torch.no_grad()
def test_steps_over_any_reordering_are_all_at_once(backbone, lengths, beams, data):
    """A walk in which hypotheses are reordered at every step, against the prefixes it leaves."""
    model, batch = MODELS[backbone], toy_batch(lengths)
    source, size = model.encode(batch.source, batch.source_mask), len(lengths)
    state, prefixes = model.start(source, beams), torch.empty(size * beams, 0, dtype=torch.long)
    decoded = None
    for number in range(data.draw(st.integers(1, 5))):
        picks = data.draw(
            st.lists(st.integers(0, beams - 1), min_size=size * beams, max_size=size * beams)
        )
        rows = torch.tensor([k // beams * beams + pick for k, pick in enumerate(picks)])
        last = 4 + (torch.arange(size * beams) * 5 + number) % 9
        state, prefixes = state.select(rows), torch.cat([prefixes[rows], last[:, None]], 1)
        decoded, state = model.backbone.step(source, last.view(size, beams), state)
    owners = torch.arange(size).repeat_interleave(beams)
    expected = model.backbone.decode(source.select(owners), prefixes).states[:, -1]
    torch.testing.assert_close(decoded.states.flatten(0, 1), expected, rtol=0, atol=1e-5)
