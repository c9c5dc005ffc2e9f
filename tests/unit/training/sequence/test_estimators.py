"""Estimators: by hand, by their formulas in loops, and in the mean over all draws."""

import itertools
import math

import pytest
import torch

from untold.training.sequence.estimators import (
    ScoredSamples,
    actor_critic,
    centre_rewards,
    minimum_risk,
    reinforce,
    value_loss,
)

# Two sentences with two and three translations of at most three tokens.
ROWS = torch.tensor([0, 0, 1, 1, 1])
LENGTHS = [3, 1, 2, 3, 2]
CHOSEN = torch.tensor([[t < length for t in range(3)] for length in LENGTHS])
REWARDS = [0.9, 0.2, 0.5, 0.1, 0.6]
VALUES = torch.tensor([[0.1 * n + 0.05 * t for t in range(3)] for n in range(5)]).double()


def tried(chosen=CHOSEN):
    log_probs = torch.tensor([[-0.3 * (n + 1) - 0.7 * t for t in range(3)] for n in range(5)])
    log_probs = (log_probs.double() * CHOSEN).requires_grad_()
    return ScoredSamples(ROWS, log_probs, chosen, torch.tensor(REWARDS).double())


def sentences(values):
    """The values of each sentence's translations."""
    return [[v for v, row in zip(values, ROWS, strict=True) if row == n] for n in (0, 1)]


def test_reinforce_is_minus_the_mean_of_advantage_times_log_p():
    given = tried()
    totals = given.log_probs.sum(1).tolist()
    advantages = [0.4, -0.3, 0.2, 0.0, -0.7]
    expected = 0.0
    for a, p in zip(sentences(advantages), sentences(totals), strict=True):
        expected -= sum(x * y for x, y in zip(a, p, strict=True)) / len(a)
    found = reinforce(given, torch.tensor(advantages).double())
    assert float(found.detach()) == pytest.approx(expected)


def test_centred_rewards_are_over_the_mean_of_the_others():
    expected = []
    for own in sentences(REWARDS):
        for place, reward in enumerate(own):
            others = own[:place] + own[place + 1 :]
            expected.append(reward - sum(others) / len(others))
    assert centre_rewards(tried()).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("alpha", [0.005, 1.0, 3.0])
def test_expected_risk_is_its_formula(alpha):
    given = tried()
    expected = 0.0
    totals = sentences(given.log_probs.sum(1).tolist())
    for own, rewards in zip(totals, sentences(REWARDS), strict=True):
        powers = [math.exp(alpha * p) for p in own]
        risks = [1 - reward for reward in rewards]
        expected += sum(q * r for q, r in zip(powers, risks, strict=True)) / sum(powers)
    assert float(minimum_risk(given, alpha).detach()) == pytest.approx(expected)


def test_expected_risk_survives_log_probabilities_far_below_zero():
    rows = torch.tensor([0, 0])
    log_probs = torch.tensor([[-2000.0], [-2001.0]], requires_grad=True)
    rewards = torch.tensor([1.0, 0.0])
    loss = minimum_risk(
        ScoredSamples(rows, log_probs, torch.ones(2, 1, dtype=torch.bool), rewards), 1.0
    )
    loss.backward()
    q = 1 / (1 + math.e)
    assert float(loss.detach()) == pytest.approx(q, rel=1e-4)
    assert log_probs.grad.flatten().tolist() == pytest.approx([-q * (1 - q), q * (1 - q)], rel=1e-3)


def test_actor_critic_weighs_every_token_by_what_was_not_expected():
    given, expected, squares = tried(), 0.0, 0.0
    for n, length in enumerate(LENGTHS):
        share = [2, 2, 3, 3, 3][n]
        for t in range(length):
            advantage = REWARDS[n] - float(VALUES[n, t])
            expected -= advantage * float(given.log_probs[n, t].detach()) / share
            squares += advantage**2 / length / share
    values = VALUES.clone().requires_grad_()
    loss = actor_critic(given, values)
    assert float(loss.detach()) == pytest.approx(expected)
    loss.backward()
    assert values.grad is None, "the critic learns by its own loss alone"
    error = value_loss(tried(), values)
    assert float(error.detach()) == pytest.approx(squares)
    error.backward()
    assert bool(((values.grad != 0) == CHOSEN).all())


def test_a_token_that_was_not_chosen_teaches_nothing():
    """The EOS at a length limit; but a probability of the whole has it."""
    chosen = CHOSEN.clone()
    chosen[1, 0] = False
    for loss in (reinforce(given := tried(chosen), given.rewards), actor_critic(given, VALUES)):
        (gradient,) = torch.autograd.grad(loss, given.log_probs, retain_graph=True)
        assert float(gradient[1, 0]) == 0.0 != float(gradient[0, 0])
    assert float(value_loss(given, VALUES)) != float(value_loss(tried(), VALUES))
    assert float(minimum_risk(given, 1.0).detach()) == float(minimum_risk(tried(), 1.0).detach())


class Policy:
    """p(s) of all four sequences of two tokens from {0, 1}, with its gradients."""

    def __init__(self):
        self.first = torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)
        table = [[0.8, 0.1], [-0.5, 0.6]]
        self.second = torch.tensor(table, dtype=torch.float64, requires_grad=True)
        self.sequences = list(itertools.product((0, 1), repeat=2))
        self.rewards = dict(zip(self.sequences, (0.1, 0.7, 0.4, 0.95), strict=True))
        self.values = {(): 0.3, (0,): 0.55, (1,): 0.2}  # of a critic: by what was said before

    def log_probs(self, sequence):
        one, two = sequence
        return torch.stack([self.first.log_softmax(0)[one], self.second[one].log_softmax(0)[two]])

    def probability(self, sequences):
        return math.exp(sum(float(self.log_probs(each).sum().detach()) for each in sequences))

    def tried(self, sequences):
        return ScoredSamples(
            torch.zeros(len(sequences), dtype=torch.long),
            torch.stack([self.log_probs(each) for each in sequences]),
            torch.ones(len(sequences), 2, dtype=torch.bool),
            torch.tensor([self.rewards[each] for each in sequences], dtype=torch.float64),
        )

    def gradient(self, loss):
        parts = torch.autograd.grad(loss, (self.first, self.second))
        return torch.cat([part.flatten() for part in parts])

    def expected_reward(self):
        return sum(self.log_probs(s).sum().exp() * self.rewards[s] for s in self.sequences)


def critic_values(policy, drawn):
    return torch.tensor([[policy.values[()], policy.values[s[:1]]] for s in drawn]).double()


ESTIMATORS = {
    "mean": lambda policy, given, drawn: reinforce(given, centre_rewards(given)),
    "none": lambda policy, given, drawn: reinforce(given, given.rewards),
    "self_critical": lambda policy, given, drawn: reinforce(given, given.rewards - 0.4),
    "actor_critic": lambda policy, given, drawn: actor_critic(given, critic_values(policy, drawn)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("count", [2, 3])
def test_in_the_mean_the_gradient_is_that_of_the_expected_reward(name, count):
    policy = Policy()
    expected = -policy.gradient(policy.expected_reward())
    found = torch.zeros_like(expected)
    spread = 0.0
    for drawn in itertools.product(policy.sequences, repeat=count):
        gradient = policy.gradient(ESTIMATORS[name](policy, policy.tried(drawn), drawn))
        found += policy.probability(drawn) * gradient
        spread = max(spread, float((gradient - expected).abs().max()))
    torch.testing.assert_close(found, expected)
    assert spread > 0.1, "single draws differ, and the comparison can fail"


def test_over_all_sequences_the_risk_is_the_model_s_own():
    policy = Policy()
    given = policy.tried(policy.sequences)
    risk, expected = minimum_risk(given, 1.0), 1 - policy.expected_reward()
    torch.testing.assert_close(risk, expected)
    torch.testing.assert_close(policy.gradient(risk), policy.gradient(expected))


def test_gradients_of_the_risk_are_those_of_finite_differences():
    log_probs = tried().log_probs.detach().requires_grad_()
    chosen, rewards = CHOSEN, torch.tensor(REWARDS).double()
    assert torch.autograd.gradcheck(
        lambda values: minimum_risk(ScoredSamples(ROWS, values, chosen, rewards), 0.7), (log_probs,)
    )
