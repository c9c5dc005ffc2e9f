"""What was covered, and what routing starts from: against loops and by hand."""

import pytest
import torch

from toys import separator, toy_batch, toy_model, words
from untold.models.backbone import Widths
from untold.models.capsule_routing import RoutingPrior

B, S, T, D, C = 3, 5, 7, 13, 17
COUNTS = (2, 3, 6)
MASK = torch.arange(S) < torch.tensor([[5], [2], [4]])


def waves(*shape, start=0):
    size = torch.Size(shape).numel()
    return torch.sin(torch.arange(start, start + size, dtype=torch.float32) * 1.7).view(shape)


@pytest.fixture
def coverage():
    module = RoutingPrior(Widths(D, D, D), C, COUNTS)
    for number, parameter in enumerate(module.parameters()):
        parameter.data = waves(*parameter.shape, start=100 * number)
    return module


def test_a_position_looks_at_real_words_alone(coverage):
    states, guide = waves(B, S, D), waves(B, T, D, start=7)
    keys, _ = coverage.cast(states)
    focus = coverage.focus(keys, MASK, guide)
    assert bool((focus.masked_fill(MASK[:, None], 0) == 0).all())
    torch.testing.assert_close(focus.sum(-1), torch.ones(B, T))
    for row, real in enumerate((5, 2, 4)):
        for t in range(T):
            scores = torch.stack(
                [
                    (coverage.query(guide[row, t]) * coverage.key(states[row, i])).sum() / C**0.5
                    for i in range(real)
                ]
            )
            torch.testing.assert_close(focus[row, t, :real], scores.softmax(0))


def test_the_prior_is_its_formula(coverage):
    states, covered = waves(B, S, D), waves(B, T, S, start=3)
    _, by_word = coverage.cast(states)
    prior = coverage.prior(by_word, covered)
    for j in (0, 4, 10):
        expected = coverage.strength[j] * (covered[1, 2, 3] - 0.5) + (
            coverage.word.weight[j] @ states[1, 3]
        )
        torch.testing.assert_close(prior[1, j, 2, 3], expected)


def test_at_first_a_word_looked_at_is_past_and_any_other_future():
    module = RoutingPrior(Widths(D, D, D), C, COUNTS)
    _, by_word = module.cast(waves(1, S, D))
    covered = torch.tensor([[[0.0, 1.0, 0.0, 0.0, 2.0]]])
    past, future, redundant = module.prior(by_word, covered)[0, :, 0].split(COUNTS)
    assert bool((past[:, [1, 4]] > redundant.max()).all())
    assert bool((future[:, [0, 2, 3]] > redundant.max()).all())
    assert bool((future[:, [1, 4]] < redundant.min()).all())
    assert bool((redundant == 0).all())


@torch.no_grad()
def test_a_step_has_covered_what_the_steps_before_it_looked_at():
    model = toy_model(separator=separator("gdr-dot"))
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    source = model.encode(batch.source, batch.source_mask)
    states = model.backbone.decode(source, batch.prefix).states
    *_, keys, _ = source.votes
    focus = model.past_future.coverage.focus(keys, source.mask, states)
    covered = model.past_future.separate(source, states).covered
    total = torch.zeros_like(focus[:, 0])
    for t in range(states.shape[1]):
        total = total + focus[:, t]
        torch.testing.assert_close(covered[:, t], total)


@torch.no_grad()
def test_hypotheses_take_what_they_have_covered_with_them():
    model = toy_model(separator=separator("gdr-dot"))
    ids = words(2, 5)
    source = model.encode(ids, torch.ones(2, 5, dtype=torch.bool))
    last = torch.tensor([[5, 6, 7], [8, 9, 10]])
    state = model.step(source, last, model.start(source, 3)).state
    rows = torch.tensor([2, 2, 3])
    assert torch.equal(state.select(rows).covered, state.covered[rows])
    assert not torch.equal(state.covered[2], state.covered[0])


def test_a_single_round_and_other_separators_have_none():
    for settings in ({"num_iterations": 1}, {"coverage": False}):
        assert toy_model(separator=separator("gdr-dot", **settings)).past_future.coverage is None
    assert toy_model(separator=separator("clf")).past_future.coverage is None
