"""The losses of sequence-level training: the estimator's, the critic's, the discriminator's."""

import torch
from jaxtyping import Float
from torch import Tensor

from untold.config import TrainConfig
from untold.training.losses.loss import Loss, LossContext
from untold.training.sequence.critics import Critic, adequacy_loss
from untold.training.sequence.estimators import (
    actor_critic,
    centre_rewards,
    minimum_risk,
    reinforce,
    value_loss,
)
from untold.training.sequence.grading import Grader

__all__ = ["CriticLoss", "DiscriminatorLoss", "SequenceLoss"]


class CriticLoss(Loss):
    """Trains the critic to predict the grades of the samples."""

    name = "critic"
    auxiliary = False

    def __init__(self, grader: Grader, critic: Critic) -> None:
        self.grader = grader
        self.critic = critic

    def weight(self, config: TrainConfig) -> float:  # noqa: ARG002
        """Returns one: train.sequence.judge_rate scales its learning rate."""
        return 1.0

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the squared error of the critic."""
        scored = context.once(self.grader.scored_samples)
        return None if scored is None else value_loss(scored[0], context.once(self.values))

    def values(self, context: LossContext) -> Float[Tensor, "n t"]:
        """Computes the grade that the critic expects before each token of the samples."""
        scored = context.once(self.grader.scored_samples)
        assert scored is not None
        return self.critic(scored[1])


class SequenceLoss(Loss):
    """Raises the expected reward of the model's translations by the estimator of the settings."""

    name = "sequence"
    auxiliary = False
    trains_backbone = True

    def __init__(self, grader: Grader, critic_loss: CriticLoss | None) -> None:
        self.grader = grader
        self.critic_loss = critic_loss

    def weight(self, config: TrainConfig) -> float:
        """Returns train.sequence.mix; the losses on the reference have the rest."""
        return config.sequence.mix

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the loss of the estimator; None while a discriminator warms up."""
        scored = context.once(self.grader.scored_samples)
        if scored is None:
            return None
        config, samples = context.config.sequence, scored[0]
        if config.kind == "mrt":
            return minimum_risk(samples, config.alpha)
        if self.critic_loss is not None:
            return actor_critic(samples, context.once(self.critic_loss.values))
        if config.baseline == "mean":
            return reinforce(samples, centre_rewards(samples))
        if config.baseline == "none":
            return reinforce(samples, samples.rewards)
        greedy = self.grader.greedy_grades(context).to(samples.rewards.dtype)
        return reinforce(samples, samples.rewards - greedy[samples.rows])


class DiscriminatorLoss(Loss):
    """Trains the discriminator on the rewards of samples, and on references, which are worth one.

    It learns from samples after the model has learnt from its estimates: they take turns.
    """

    name = "discriminator"
    auxiliary = False

    def __init__(self, grader: Grader) -> None:
        self.grader = grader

    def weight(self, config: TrainConfig) -> float:  # noqa: ARG002
        """Returns one: train.sequence.judge_rate scales its learning rate."""
        return 1.0

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the cross entropy; the samples of a sentence are averaged."""
        batch, samples = context.batch, context.once(self.grader.samples)
        rewards, discriminator = context.once(self.grader.rewards), self.grader.discriminator
        assert discriminator is not None
        counts = samples.rows.bincount()[samples.rows]
        estimates = self.grader.judge(samples, batch)
        loss = adequacy_loss(estimates, rewards, 1 / counts.to(rewards.dtype))
        real = discriminator(batch.source, batch.source_mask, batch.labels, batch.target_mask)
        ones = torch.ones(len(real), device=rewards.device)
        return loss + adequacy_loss(real, ones, ones)
