"""Critic and discriminator: what they see, what they cannot change, what they can learn."""

import math

import pytest
import torch

from toys import fill, words
from untold.training.sequence.estimators import Critic, Discriminator, adequacy_loss


def test_the_critic_starts_at_one_half_and_leaves_the_model_alone():
    torch.manual_seed(1)
    critic, states = Critic(11, 7), torch.randn(2, 3, 11, requires_grad=True)
    values = critic(states)
    assert values.tolist() == [[0.5] * 3] * 2
    fill(critic)(states).square().sum().backward()
    assert states.grad is None
    assert all(p.grad is not None for p in critic.parameters())


def pairs():
    """Sources of 5 and 3 words, translations of 2 and 7."""
    source, target = words(2, 5, size=17), words(2, 7, size=13)
    return (
        source,
        torch.arange(5) < torch.tensor([[5], [3]]),
        target,
        torch.arange(7) < torch.tensor([[2], [7]]),
    )


def test_the_discriminator_is_between_zero_and_one_and_blind_to_padding():
    judge, (source, source_mask, target, target_mask) = (
        fill(Discriminator((17, 13), (0, 0), 6)),
        pairs(),
    )
    found = judge(source, source_mask, target, target_mask)
    assert bool(((found > 0) & (found < 1)).all()) and not torch.equal(found[:1], found[1:])
    for row, (i, t) in enumerate(((5, 2), (3, 7))):
        alone = judge(
            source[row : row + 1, :i],
            source_mask[row : row + 1, :i],
            target[row : row + 1, :t],
            target_mask[row : row + 1, :t],
        )
        torch.testing.assert_close(alone, found[row : row + 1])
    assert not torch.equal(judge(source, source_mask, target.roll(1, 0), target_mask), found)


def test_adequacy_is_learnt_by_cross_entropy():
    estimates = torch.tensor([0.3, 0.6], requires_grad=True)
    truth, weights = torch.tensor([0.25, 1.0]), torch.tensor([0.5, 2.0])
    loss = adequacy_loss(estimates, truth, weights)
    first = -(0.25 * math.log(0.3) + 0.75 * math.log(0.7))
    assert float(loss.detach()) == pytest.approx(0.5 * first - 2 * math.log(0.6))
    exact = torch.tensor([0.25, 0.999], requires_grad=True)
    adequacy_loss(exact, truth, weights).backward()
    assert float(exact.grad[0]) == pytest.approx(0, abs=1e-6), "least at the truth"


def test_the_discriminator_learns_to_see_omissions():
    """Translations are the source's words plus ten, backwards; some are others, as many in all."""
    torch.manual_seed(2)
    judge = Discriminator((40, 40), (0, 0), 16)
    optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)
    everything = torch.ones(32, 6, dtype=torch.bool)

    def draw():
        source = 4 + torch.rand(32, 12).argsort(dim=1)[:, :6]
        told = torch.rand(32, 6) < torch.rand(32, 1)
        target = torch.where(told, source + 10, torch.randint(30, 40, (32, 6))).flip(1)
        return (source, everything, target, everything), told.float().mean(1)

    for _ in range(120):
        given, truth = draw()
        optimizer.zero_grad()
        adequacy_loss(judge(*given), truth, torch.ones(32)).backward()
        optimizer.step()
    given, truth = draw()
    found = judge(*given).detach()
    assert float(torch.corrcoef(torch.stack([found, truth]))[0, 1]) > 0.8
