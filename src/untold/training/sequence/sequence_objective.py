"""The objective of sequence-level training, in place of the plain one.

    (1 - mix) * the losses on the reference  +  mix * the estimator's loss  +  the judges' losses

All are sums over sentences, so that neither accumulation nor the number of processes changes them.
The source is encoded once: the pass over the reference and the one over all samples share it.
"""

import torch

from untold.storage.model_directory import TrainedModel
from untold.training.losses.loss import Loss, LossContext
from untold.training.losses.objective import Losses, Objective
from untold.training.sequence.critics import Critic, Discriminator
from untold.training.sequence.grading import Grader
from untold.training.sequence.rewards import Reward, make_reward
from untold.training.sequence.sequence_losses import CriticLoss, DiscriminatorLoss, SequenceLoss

__all__ = ["SequenceObjective", "make_objective"]


class SequenceObjective(Objective):
    """Mixes the losses on the reference with a loss on sampled translations.

    Critic and discriminator, the judges, start with the same weights for the same seed.
    """

    def __init__(self, trained: TrainedModel, reward: Reward | None = None) -> None:
        """`reward` is made from the configuration unless it is given."""
        super().__init__(trained.model, trained.config.train)
        config, data, tokenizers = self.config.sequence, trained.config.data, trained.tokenizers
        critic, discriminator = None, None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            if config.kind == "actor_critic":
                critic = Critic(trained.model.backbone.widths.state, config.d_judge)
            if config.discriminator:
                source, target = tokenizers.special_ids
                padding = (source.pad, target.pad)
                discriminator = Discriminator(tokenizers.sizes, padding, config.d_judge)
        reward = reward or make_reward(config, data.bleu_tokenize)
        self.grader = Grader(tokenizers, reward, discriminator, data.max_tokens)
        self.judge_losses: list[Loss] = []
        critic_loss = None
        if critic is not None:
            critic_loss = CriticLoss(self.grader, critic)
            self.judges[critic_loss.name] = critic
            self.judge_losses.append(critic_loss)
        if discriminator is not None:
            self.judge_losses.append(DiscriminatorLoss(self.grader))
            self.judges[DiscriminatorLoss.name] = discriminator
        self.judges.to(next(trained.model.parameters()).device)
        self.put_off = 0  # the total mixes all losses with those of the samples
        self.sequence_loss = SequenceLoss(self.grader, critic_loss)
        self.names = (*self.names, self.sequence_loss.name, "reward", *self.judges)

    def extend(self, supervised: Losses, context: LossContext) -> Losses:
        """Mixes in the estimator's loss and adds those of the judges."""
        total, parts = supervised.total, dict(supervised.parts)
        parts["reward"] = context.once(self.grader.reward_figure)
        value, mix = self.sequence_loss.value(context), self.sequence_loss.weight(self.config)
        if value is not None:
            total = (1 - mix) * total + mix * value
            parts[self.sequence_loss.name] = value.detach()
        parts["loss"] = total.detach()
        for loss in self.judge_losses:
            value = loss.value(context)
            if value is not None:
                total = total + loss.weight(self.config) * value
                parts[loss.name] = value.detach()
        return Losses(total, parts)


def make_objective(trained: TrainedModel, reward: Reward | None = None) -> Objective:
    """Makes the objective that the configuration asks for; see SequenceObjective for `reward`."""
    if trained.config.train.sequence.is_on:
        return SequenceObjective(trained, reward)
    return Objective(trained.model, trained.config.train)
