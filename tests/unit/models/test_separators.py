"""GDR, CLF and ATTN by themselves: against their formulas, at the ends of the number line.

Axes: 3 sentences, 5 source words, 7 target positions, width 13, 2+3+6 capsules of width 17.
"""

import math

import pytest
import torch

from toys import SEPARATORS as NAMES
from toys import fill, separator
from untold.config import SEPARATORS, SeparatorConfig
from untold.models.backbone import Widths

B, S, T, D = 3, 5, 7, 13
LENGTHS = torch.tensor([[5], [1], [4]])
GUIDED = dict.fromkeys(("gdr-dot", "gdr-said", "gdr-mlp"), "agreement.guide") | {"clf": "guide"}
GUIDED |= {"attn": "guide"}


def make(name, **settings):
    config = SeparatorConfig.model_validate(separator(name, **settings))
    return fill(SEPARATORS[config.kind](config, Widths(D, D, D), config.d_capsule))


def waves(*shape, start=0.0):
    return (torch.arange(math.prod(shape)) * 1.7 + start).sin().view(shape)


def problem():
    return waves(B, S, D, start=0.3), torch.arange(S) < LENGTHS, waves(B, T, D, start=0.8)


def run(module, states, mask, guide):
    return module(module.cast(states, mask), mask, guide)


@pytest.mark.parametrize("name", NAMES)
def test_the_toys_decide_something(name):
    """The control of all that follows: shares are neither even nor all-or-nothing."""
    routed = run(make(name), *problem())
    shares = routed.assignments[0]
    assert (shares.std(0) > 1e-3).any() and (shares.std(-1) > 1e-3).any()
    assert ((shares > 0.02) & (shares < 0.9)).float().mean() > 0.2


@torch.no_grad()
def test_the_classifier_is_its_formula():
    """Word by word, position by position: softmax over three classes, shared within a class."""
    module, (states, mask, guide) = make("clf"), problem()
    routed = run(module, states, mask, guide)
    for b, t, i in torch.cartesian_prod(torch.arange(B), torch.arange(T), torch.arange(S)).tolist():
        hidden = module.key(states[b, i]) + module.guide(guide[b, t])
        past, future, redundant = module.classes(hidden.tanh()).softmax(-1) * mask[b, i]
        expected = [past / 2] * 2 + [future / 3] * 3 + [redundant / 6] * 6
        torch.testing.assert_close(routed.assignments[b, t, i], torch.stack(expected))


@torch.no_grad()
def test_the_attentions_are_their_formula():
    module, (states, mask, guide) = make("attn"), problem()
    routed = run(module, states, mask, guide)
    for b, t in torch.cartesian_prod(torch.arange(B), torch.arange(T)).tolist():
        real = states[b, mask[b]]
        hidden = (module.key(real) + module.guide(guide[b, t])).tanh()
        for part, weight, place, count in zip(
            hidden.split(17, -1), module.weight, (0, 2), (2, 3), strict=True
        ):
            expected = (part @ weight).softmax(0)[:, None].expand(-1, count) / count
            found = routed.assignments[b, t, mask[b], place : place + count]
            torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_attention_cannot_say_that_nothing_is_left():
    """With one word, that word has all of either category, whatever the guide says."""
    routed = run(make("attn"), *problem())
    torch.testing.assert_close(routed.assignments[1, :, 0, :2].sum(-1), torch.ones(T))
    torch.testing.assert_close(routed.assignments[1, :, 0, 2:].sum(-1), torch.ones(T))
    classified = run(make("clf"), *problem()).assignments[1, :, 0, 2:5].sum(-1)
    assert bool((classified < 0.99).all())


@pytest.mark.parametrize("iterations", [2, 3, 5])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_without_weights_for_the_guide_it_does_not_matter(name, iterations):
    module, (states, mask, guide) = make(name, num_iterations=iterations), problem()
    other = guide.flip(1) * 3
    before, changed = run(module, states, mask, guide), run(module, states, mask, other)
    assert (before.capsules - changed.capsules).abs().max() > 1e-3, "the control"
    linear = module.get_submodule(GUIDED[name])
    linear.weight.zero_()
    for without_bias in (False, True):
        if without_bias and linear.bias is not None:
            linear.bias.zero_()
        one, two = run(module, states, mask, guide), run(module, states, mask, other)
        assert torch.equal(one.capsules, two.capsules)
        assert torch.equal(one.assignments, two.assignments)
        torch.testing.assert_close(one.capsules[:, 1:], one.capsules[:, :1].expand(-1, 6, -1, -1))


@torch.no_grad()
def test_only_a_guide_of_its_own_tells_identical_capsules_apart():
    """With equal votes, the paper's agreement leaves shares even; one guide a capsule does not."""
    for name, is_even in (("gdr-mlp", True), ("gdr-dot", False)):
        module, (states, mask, guide) = make(name), problem()
        module.vote.weight.copy_(module.vote.weight[:17].repeat(11, 1))
        spread = run(module, states, mask, guide).assignments[0].std(-1).max()
        assert (spread < 1e-6) == is_even


@pytest.mark.parametrize("at", ["states", "guide", "both"])
@pytest.mark.parametrize("factor", [0.0, 1e-20, 1e20, 1e30])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("redundant", [0, 6])
def test_values_and_gradients_are_finite_at_any_size_of_the_inputs(name, factor, at, redundant):
    """In single precision; the second sentence has one word."""
    for iterations in (1, 2, 3, 4, 5) if name.startswith("gdr") else (1,):
        module = make(name, num_iterations=iterations, redundant=redundant)
        states, mask, guide = problem()
        states = (states * (1.0 if at == "guide" else factor)).requires_grad_()
        guide = (guide * (1.0 if at == "states" else factor)).requires_grad_()
        routed = run(module, states, mask, guide)
        past_and_future = routed.capsules[:, :, :5]
        (past_and_future.square().sum() + routed.assignments.square().sum()).backward()
        assert bool(routed.assignments.isfinite().all())
        norms = routed.capsules.detach().double().norm(dim=-1)
        assert bool((norms < 1 + 1e-6).all()), "rounding alone takes them there"
        inputs = {"states": states} | dict(module.named_parameters())
        for key, value in inputs.items():
            if value.grad is not None:
                assert bool(value.grad.isfinite().all()), (key, iterations)
        assert guide.grad is None or bool(guide.grad.isfinite().all())


@pytest.mark.parametrize("name", NAMES)
def test_zero_states_make_zero_capsules(name):
    states, mask, guide = problem()
    routed = run(make(name), torch.zeros_like(states), mask, guide)
    assert bool((routed.capsules == 0).all())


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_without_redundant_capsules_past_and_future_share_all(name):
    routed = run(make(name, redundant=0), *problem())
    assert routed.assignments.shape == (B, T, S, 5)
    real = problem()[1][:, None].expand(-1, T, -1)
    if name != "attn":
        sums = routed.assignments.sum(-1)[real]
        torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_what_is_cast_is_rows_of_sentences(name):
    """So that a search may select them."""
    module, (states, mask, guide) = make(name), problem()
    rows = torch.tensor([2, 0, 2])
    votes = tuple(part[rows] for part in module.cast(states, mask))
    found = module(votes, mask[rows], guide[rows])
    expected = run(module, states[rows], mask[rows], guide[rows])
    torch.testing.assert_close(found.capsules, expected.capsules)
    torch.testing.assert_close(found.assignments, expected.assignments)
