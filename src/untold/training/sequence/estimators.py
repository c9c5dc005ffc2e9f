"""Estimators: losses whose gradient raises the expected reward of the model's translations.

    reinforce      - mean over samples s of (r_s - b) log p(s)
    mrt            sum over a set S of Q(s) (1 - r_s),  Q(s) = p(s)^alpha / sum over S of p^alpha
    actor_critic   - mean over samples of the sum over steps t of (r_s - V_t) log p(s_t | s_<t)

The baseline b of a sample, and V_t, must not depend on the token drawn at that place: then the
gradient of `reinforce` and `actor_critic` is, in the mean, that of the expected reward. All losses
are sums over sentences.

Critic and discriminator: small networks that learn beside the model and judge its samples.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


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


class Critic(nn.Module):
    """Predicts V_t, the expected reward of a translation, from the state before its token t.

    It starts at one half everywhere.
    """

    def __init__(self, d_model: int, d_judge: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_model, d_judge)
        self.value = nn.Linear(d_judge, 1)
        nn.init.zeros_(self.value.weight)
        nn.init.constant_(self.value.bias, 0.5)

    def forward(self, states: Float[Tensor, "n t d"]) -> Float[Tensor, "n t"]:
        """Detaches the states: the model gets no gradient from its critic."""
        return self.value(F.relu(self.hidden(states.detach()))).squeeze(-1)


class Discriminator(nn.Module):
    """Estimates the share, from 0 to 1, of the source words that a translation translates.

    Each source word looks for its translation with one attention over the target words; both sides
    are read with a window of three words.
    """

    def __init__(
        self, vocabularies: tuple[int, int], padding: tuple[int, int], d_judge: int
    ) -> None:
        """`vocabularies` are the sizes, `padding` the padding ids of source and target."""
        super().__init__()
        self.source_words, self.target_words = (
            nn.Embedding(size, d_judge, padding_idx=pad)
            for size, pad in zip(vocabularies, padding, strict=True)
        )
        self.source_reader, self.target_reader = (
            nn.Conv1d(d_judge, d_judge, 3, padding=1) for _ in vocabularies
        )
        self.hidden = nn.Linear(3 * d_judge, d_judge)
        self.told = nn.Linear(d_judge, 1)

    def forward(
        self,
        source: Int[Tensor, "n i"],
        source_mask: Bool[Tensor, "n i"],
        target: Int[Tensor, "n t"],
        target_mask: Bool[Tensor, "n t"],
    ) -> Float[Tensor, " n"]:
        """Estimates the adequacy of each pair; padding changes nothing."""
        words = _read(self.source_words, self.source_reader, source, source_mask)
        said = _read(self.target_words, self.target_reader, target, target_mask)
        scores = torch.einsum("nid,ntd->nit", words, said) / words.shape[-1] ** 0.5
        shares = scores.masked_fill(~target_mask[:, None], -torch.inf).softmax(-1)
        found = torch.einsum("nit,ntd->nid", shares, said)
        features = torch.cat([words, found, words * found], dim=-1)
        translated = self.told(F.relu(self.hidden(features))).squeeze(-1).sigmoid()
        return (translated * source_mask).sum(1) / source_mask.sum(1)


def adequacy_loss(
    estimates: Float[Tensor, " n"], truth: Float[Tensor, " n"], weights: Float[Tensor, " n"]
) -> Float[Tensor, ""]:
    """Computes the weighted binary cross entropy; it is least where an estimate is the truth."""
    with torch.autocast(estimates.device.type, enabled=False):
        return F.binary_cross_entropy(
            estimates.to(truth.dtype), truth.clamp(0, 1), weights, reduction="sum"
        )


def _read(
    embedding: nn.Embedding, reader: nn.Conv1d, ids: Tensor, mask: Tensor
) -> Float[Tensor, "n i d"]:
    words = embedding(ids) * mask[..., None]
    return words + F.relu(reader(words.transpose(1, 2)).transpose(1, 2))
