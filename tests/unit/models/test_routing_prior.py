"""What was covered, and what routing starts from: against loops and by hand."""

import pytest
import torch

from toys import separator, toy_batch, toy_model, words
from untold.models.backbone import Widths
from untold.models.routing import Reading, RoutingPrior

B, S, T, D, C, O = 3, 5, 7, 13, 17, 11  # noqa: E741
COUNTS = (2, 3, 6)
MASK = torch.arange(S) < torch.tensor([[5], [2], [4]])


def waves(*shape, start=0):
    size = torch.Size(shape).numel()
    return torch.sin(torch.arange(start, start + size, dtype=torch.float32) * 1.7).view(shape)


@pytest.fixture(params=[False, True], ids=["state", "token"])
def coverage(request):
    module = RoutingPrior(Widths(D, D, O), C, COUNTS, reads_token=request.param)
    for number, parameter in enumerate(module.parameters()):
        parameter.data = waves(*parameter.shape, start=100 * number)
    return module


def test_a_position_looks_at_real_words_alone(coverage):
    states, guide, tokens = waves(B, S, D), waves(B, T, D, start=7), waves(B, T, O, start=9)
    keys, _ = coverage.cast(states)
    focus = coverage.focus(keys, MASK, Reading(guide, guide, tokens, begins=True))
    assert bool((focus.masked_fill(MASK[:, None], 0) == 0).all())
    torch.testing.assert_close(focus.sum(-1), torch.ones(B, T))
    for row, real in enumerate((5, 2, 4)):
        for t in range(T):
            query = coverage.query(guide[row, t])
            if coverage.token is not None:
                query = query + coverage.token(tokens[row, t] * O**0.5)
            scores = torch.stack(
                [(query * coverage.key(states[row, i])).sum() / C**0.5 for i in range(real)]
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
    module = RoutingPrior(Widths(D, D, D), C, COUNTS, reads_token=False)
    _, by_word = module.cast(waves(1, S, D))
    covered = torch.tensor([[[0.0, 1.0, 0.0, 0.0, 2.0]]])
    past, future, redundant = module.prior(by_word, covered)[0, :, 0].split(COUNTS)
    assert bool((past[:, [1, 4]] > redundant.max()).all())
    assert bool((future[:, [0, 2, 3]] > redundant.max()).all())
    assert bool((future[:, [1, 4]] < redundant.min()).all())
    assert bool((redundant == 0).all())


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-said"])
@torch.no_grad()
def test_a_step_has_covered_what_the_steps_before_it_looked_at(name):
    model = toy_model(separator=separator(name))
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    source = model.encode(batch.source, batch.source_mask)
    states = model.backbone.decode(source, batch.prefix).states
    tokens = torch.nn.functional.embedding(batch.prefix, model.output_embedding())
    read = Reading(states, states, tokens, begins=True)
    *_, keys, _ = source.votes
    prior = model.past_future.coverage
    focus = prior.focus(keys, source.mask, read)
    seen, covered = prior.cover(keys, source.mask, read, None)
    torch.testing.assert_close(model.past_future.separate(source, read).covered, covered)
    says = name == "gdr-said"
    total = torch.zeros_like(focus[:, 0])
    for t in range(states.shape[1]):
        before = total
        if t > 0 or not says:  # BOS speaks of nothing
            total = total + focus[:, t]
        torch.testing.assert_close(covered[:, t], total)
        torch.testing.assert_close(seen[:, t], total if says else before)


@torch.no_grad()
def test_what_is_covered_depends_on_the_token_that_was_read():
    """The last token is read last: without it nothing would tell two ends of a target apart."""
    model = toy_model(separator=separator("gdr-said"))
    batch = toy_batch([(4, 6)])
    other = batch.prefix.clone()
    other[0, -1] = 5 if int(other[0, -1]) != 5 else 6
    source = model.encode(batch.source, batch.source_mask)
    states = model.backbone.decode(source, batch.prefix).states  # the same for both
    found = []
    for prefix in (batch.prefix, other):
        tokens = torch.nn.functional.embedding(prefix, model.output_embedding())
        read = Reading(states, states, tokens, begins=True)
        found.append(model.past_future.separate(source, read).covered[0])
    torch.testing.assert_close(found[0][:-1], found[1][:-1], rtol=0, atol=0)
    assert (found[0][-1] - found[1][-1]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-said"])
@torch.no_grad()
def test_hypotheses_take_what_they_have_covered_with_them(name):
    model = toy_model(separator=separator(name))
    ids = words(2, 5)
    source = model.encode(ids, torch.ones(2, 5, dtype=torch.bool))
    last = torch.tensor([[5, 6, 7], [8, 9, 10]])
    state = model.step(source, last, model.start(source, 3)).state
    if name == "gdr-said":
        assert not state.covered.any(), "BOS has covered nothing"
        assert not state.begins
        state = model.step(source, last, state).state
    rows = torch.tensor([2, 2, 3])
    assert torch.equal(state.select(rows).covered, state.covered[rows])
    assert not torch.equal(state.covered[2], state.covered[0])


def test_a_single_round_and_other_separators_have_none():
    for settings in ({"num_iterations": 1}, {"coverage": False}):
        assert toy_model(separator=separator("gdr-dot", **settings)).past_future.coverage is None
    assert toy_model(separator=separator("clf")).past_future.coverage is None
