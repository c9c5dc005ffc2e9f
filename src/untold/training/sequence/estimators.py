"""Estimators: losses whose gradient raises the expected reward of the model's translations.

    reinforce      - mean over samples s of (r_s - b) log p(s)
    mrt            sum over a set S of Q(s) (1 - r_s),  Q(s) = p(s)^alpha / sum over S of p^alpha
    actor_critic   - mean over samples of the sum over steps t of (r_s - V_t) log p(s_t | s_<t)

The baseline b of a sample, and V_t, must not depend on the token drawn at that place: then the
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
    """n translations with their log-probabilities and rewards, ordered by sentence."""

    rows: Int[Tensor, " n"]  # the sentence of each: 0 0 .. 1 1 ..
    log_probs: Float[Tensor, "n t"]  # of the tokens, with gradients; zero at padding
    chosen: Bool[Tensor, "n t"]  # tokens that the model chose; no padding
    rewards: Float[Tensor, " n"]

    @property
    def shares(self) -> Float[Tensor, " n"]:
        """Returns one over the number of translations of the sentence."""
        return 1 / self.rows.bincount()[self.rows].to(self.rewards.dtype)


def reinforce(samples: ScoredSamples, advantages: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """Weighs each sample by its advantage, the reward minus a baseline."""
    log_probs = (samples.log_probs * samples.chosen).sum(1)
    return -(samples.shares * advantages * log_probs).sum()


def centre_rewards(samples: ScoredSamples) -> Float[Tensor, " n"]:
    """Subtracts from each reward the mean of the sentence's other samples; there must be some.

    That is k/(k-1) times the reward minus the mean of all k, which would make the gradient
    (k-1)/k of the right one, since that mean holds the sample's own reward.
    """
    count = samples.rows.bincount()[samples.rows].to(samples.rewards.dtype)
    sums = torch.zeros_like(samples.rewards).index_add(0, samples.rows, samples.rewards)
    return (samples.rewards - sums[samples.rows] / count) * count / (count - 1)


def minimum_risk(samples: ScoredSamples, alpha: float) -> Float[Tensor, ""]:
    """Computes the mean of 1 - reward under the model, sharpened by alpha, over the set."""
    places = torch.arange(len(samples.rows), device=samples.rows.device)
    counts = samples.rows.bincount()
    places = places - (counts.cumsum(0) - counts)[samples.rows]
    shape = (len(counts), int(counts.max()))
    scores = samples.rewards.new_full(shape, -torch.inf)
    scores = scores.index_put((samples.rows, places), alpha * samples.log_probs.sum(1))
    risks = samples.rewards.new_zeros(shape)
    risks = risks.index_put((samples.rows, places), 1 - samples.rewards)
    return (scores.softmax(1) * risks).sum()


def actor_critic(samples: ScoredSamples, values: Float[Tensor, "n t"]) -> Float[Tensor, ""]:
    """Weighs each token by the reward minus what the critic expected before it was chosen."""
    advantages = (samples.rewards[:, None] - values.detach()) * samples.chosen
    return -(samples.shares * (advantages * samples.log_probs).sum(1)).sum()


def value_loss(samples: ScoredSamples, values: Float[Tensor, "n t"]) -> Float[Tensor, ""]:
    """Computes the critic's squared error, averaged over the steps and samples of a sentence."""
    steps = samples.chosen.sum(1).clamp(min=1)
    errors = ((values - samples.rewards[:, None]).square() * samples.chosen).sum(1) / steps
    return (samples.shares * errors).sum()
