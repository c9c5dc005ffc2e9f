"""From rewards of whole translations to a loss whose gradient raises the expected reward.

    reinforce      - mean over samples s of (r_s - b) log p(s)
    mrt            sum over a set S of Q(s) (1 - r_s),  Q(s) = p(s)^alpha / sum over S of p^alpha
    actor_critic   - mean over samples of the sum over steps t of (r_s - V_t) log p(s_t | s_<t)

The baseline b of a sample, and V_t, must not depend on what was drawn at that place: then the
gradient of `reinforce` and `actor_critic` is, in the mean, that of the expected reward. All losses
are sums over sentences.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = [
    "ScoredSamples",
    "actor_critic",
    "centre_rewards",
    "minimum_risk",
    "reinforce",
    "value_loss",
]


@dataclass(frozen=True)
class ScoredSamples:
    """n translations, those of a sentence together, with what the model and the reward say."""

    rows: Int[Tensor, " n"]  # the sentence of each: 0 0 .. 1 1 ..
    log_probs: Float[Tensor, "n t"]  # of the tokens, with gradients; zero at padding
    chosen: Bool[Tensor, "n t"]  # tokens that the model chose; no padding
    rewards: Float[Tensor, " n"]

    @property
    def shares(self) -> Float[Tensor, " n"]:
        """One over the number of translations of its sentence."""
        return 1 / self.rows.bincount()[self.rows].to(self.rewards.dtype)


def reinforce(tried: ScoredSamples, advantages: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """Weighs each sample by its advantage, the reward over a baseline."""
    log_probs = (tried.log_probs * tried.chosen).sum(1)
    return -(tried.shares * advantages * log_probs).sum()


def centre_rewards(tried: ScoredSamples) -> Float[Tensor, " n"]:
    """Rewards over the mean of the sentence's other samples; there must be some.

    That is k/(k-1) times the reward over the mean of all k, which would make the gradient
    (k-1)/k of what it should be: the mean holds the sample's own reward.
    """
    count = tried.rows.bincount()[tried.rows].to(tried.rewards.dtype)
    sums = torch.zeros_like(tried.rewards).index_add(0, tried.rows, tried.rewards)
    return (tried.rewards - sums[tried.rows] / count) * count / (count - 1)


def minimum_risk(tried: ScoredSamples, alpha: float) -> Float[Tensor, ""]:
    """The mean of 1 - reward under the model, sharpened by alpha and confined to the set."""
    places = torch.arange(len(tried.rows), device=tried.rows.device)
    counts = tried.rows.bincount()
    places = places - (counts.cumsum(0) - counts)[tried.rows]
    shape = (len(counts), int(counts.max()))
    scores = tried.rewards.new_full(shape, -torch.inf)
    scores = scores.index_put((tried.rows, places), alpha * tried.log_probs.sum(1))
    risks = tried.rewards.new_zeros(shape).index_put((tried.rows, places), 1 - tried.rewards)
    return (scores.softmax(1) * risks).sum()


def actor_critic(tried: ScoredSamples, values: Float[Tensor, "n t"]) -> Float[Tensor, ""]:
    """Weighs each token by the reward over what the critic expected before it was chosen."""
    advantages = (tried.rewards[:, None] - values.detach()) * tried.chosen
    return -(tried.shares * (advantages * tried.log_probs).sum(1)).sum()


def value_loss(tried: ScoredSamples, values: Float[Tensor, "n t"]) -> Float[Tensor, ""]:
    """The critic's squared error: the mean over the steps of a sample, and over the samples."""
    steps = tried.chosen.sum(1).clamp(min=1)
    errors = ((values - tried.rewards[:, None]).square() * tried.chosen).sum(1) / steps
    return (tried.shares * errors).sum()
