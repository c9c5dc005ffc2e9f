"""Bilingual content agreement against loops over sentences and steps."""

import math

import pytest
import torch

from untold.models.backbone import Widths
from untold.models.past_future import Heads, Separated
from untold.models.routing import Routed
from untold.training.losses.auxiliary import content_loss, running_means

B, T, D, P, F = 3, 7, 5, 2, 11
LENGTHS = (7, 1, 4)
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]


def waves(*shape, start=0.0):
    values = (torch.arange(math.prod(shape)) * 1.3 + start).sin()
    return values.view(shape).double().requires_grad_()


def separated(past, future):
    b, t = past.shape[:2]
    routed = Routed(torch.zeros(b, t, 3, 1), torch.zeros(b, t, 2, 3))
    return Separated(routed, past, future, torch.zeros(b, t, 2, 3), fused=past)


def heads(past, future, d_model):
    made = Heads((past, future), Widths(d_model, d_model, 7)).double()
    with torch.no_grad():
        for k, parameter in enumerate(made.parameters()):
            parameter.copy_(waves(*parameter.shape, start=k))
    return made


def plain_loss(past, future, states, parts):
    total = torch.zeros((), dtype=torch.float64)
    for b, length in enumerate(LENGTHS):
        for t in range(length):
            said, left = states[b, : t + 1].mean(0).detach(), states[b, t:length].mean(0).detach()
            one = past[b, t] - parts.bca_past.weight @ said
            two = future[b, t] - parts.bca_future.weight @ left
            total = total + ((one**2).sum() + (two**2).sum()) / length
    return total


def test_it_is_the_formula_in_value_and_gradient():
    past, future, states = waves(B, T, P), waves(B, T, F, start=0.4), waves(B, T, D, start=0.9)
    parts = heads(P, F, D)
    ours = content_loss(separated(past, future), states, MASK, parts)
    plain = plain_loss(past, future, states, parts)
    torch.testing.assert_close(ours, plain)
    inputs = [past, future, parts.bca_past.weight, parts.bca_future.weight]
    found = torch.autograd.grad(ours, inputs)
    torch.testing.assert_close(found, torch.autograd.grad(plain, inputs))


def test_the_states_are_fixed_targets():
    past, future, states = waves(B, T, P), waves(B, T, F), waves(B, T, D)
    content_loss(separated(past, future), states, MASK, heads(P, F, D)).backward()
    assert states.grad is None
    assert past.grad.abs().max() > 0


def test_what_stands_in_padding_does_not_matter():
    past, future, states = (waves(B, T, n).detach() for n in (P, F, D))
    parts = heads(P, F, D)
    clean = content_loss(separated(past, future), states, MASK, parts)
    for x in (past, future, states):
        x[~MASK] = 77.0
    assert torch.equal(content_loss(separated(past, future), states, MASK, parts), clean)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[None, :, None]


def test_three_states_by_hand():
    # Means so far 2, 3, 4 and from here on 4, 5, 6; past capsules 1, future ones 2.
    expected = ((1 - 2) ** 2 + (1 - 3) ** 2 + (1 - 4) ** 2 + 0**2 + 0.5**2 + 1**2) / 3
    parts = heads(1, 1, 1)
    with torch.no_grad():
        parts.bca_past.weight.fill_(1.0)
        parts.bca_future.weight.fill_(0.5)
    capsules = separated(column(1, 1, 1), column(2, 2, 2))
    mask = torch.ones(1, 3, dtype=torch.bool)
    loss = content_loss(capsules, column(2, 4, 6), mask, parts)
    assert float(loss.detach()) == pytest.approx(expected)


def test_the_running_means_of_three_states():
    past, future = running_means(column(2, 4, 6), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(past, column(2, 3, 4))
    torch.testing.assert_close(future, column(4, 5, 6))
