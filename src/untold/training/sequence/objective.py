"""The objective of sequence-level training, in place of the plain one: grader and losses.

    (1 - mix) * the losses on the reference  +  mix * the estimator's loss  +  the judges' losses

All are sums over sentences, so that neither accumulation nor the number of processes changes them.
The source is encoded once: the pass over the reference and the one over all samples share it.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.corpus.tokenizer import Tokenizer, Tokenizers
from untold.models.copy_mechanism import TINY
from untold.storage.model_directory import TrainedModel
from untold.training.losses.cross_entropy import token_log_probs
from untold.training.losses.loss import Loss, LossContext
from untold.training.losses.objective import Losses, Objective
from untold.training.sequence.estimators import (
    Critic,
    Discriminator,
    ScoredSamples,
    actor_critic,
    adequacy_loss,
    centre_rewards,
    minimum_risk,
    reinforce,
    value_loss,
)
from untold.training.sequence.samples import Reward, Samples, draw_greedy, draw_samples, make_reward

_JUDGE_WIDTH = 64  # of critic and discriminator


class Grader:
    """Grades samples by the reward or, if there is a discriminator, by its estimate.

    Pass the methods that take a context to `LossContext.once`: several losses share their results.
    """

    def __init__(
        self,
        tokenizers: Tokenizers,
        reward: Reward,
        discriminator: Discriminator | None,
        longest: int,
    ) -> None:
        """`longest` limits the tokens of a sample."""
        self.tokenizers = tokenizers
        self.reward = reward
        self.discriminator = discriminator
        self.longest = longest

    def samples(self, context: LossContext) -> Samples:
        """Draws translations of the batch."""
        config = context.config.sequence
        return draw_samples(context.model, context.batch, config, self.longest)

    def rewards(self, context: LossContext) -> Float[Tensor, " n"]:
        """Computes the reward of each sample."""
        return self._rewards(context.once(self.samples), context.batch)

    def reward_figure(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes what the log shows: mean rewards times target tokens, summed.

        The log divides all figures by the target tokens, which makes this a mean reward.
        """
        samples = context.once(self.samples)
        counts = samples.rows.bincount()[samples.rows]
        tokens = context.batch.target_mask.sum(1)[samples.rows]
        return (context.once(self.rewards) * tokens / counts).sum()

    def scored_samples(
        self, context: LossContext
    ) -> tuple[ScoredSamples, Float[Tensor, "n t d"]] | None:
        """Reads all samples in one pass; returns them with their grades, and the decoder states.

        Labels are not smoothed. None means that the discriminator is still warming up.
        """
        if self.discriminator is not None:
            if context.step <= context.config.sequence.discriminator_warmup:
                return None
            grades = self._estimates(context.once(self.samples), context.batch)
        else:
            grades = context.once(self.rewards)
        model, samples = context.model, context.once(self.samples)
        decoded = model.decode(context.outputs.source.select(samples.rows), samples.prefix)
        real, output = samples.mask, model.backbone.output_layer()
        states, weight = output.augmented(decoded.holistic[real])
        found = token_log_probs(states, weight, samples.labels[real])
        if decoded.copied is not None:
            generated = found + decoded.copied.generating[real]
            copied = decoded.copied.probability(samples.labels)[real]
            found = torch.logaddexp(generated, copied.clamp(min=TINY).log())
        log_probs = found.new_zeros(real.shape).masked_scatter(real, found)
        grades = grades.to(found.dtype)
        return ScoredSamples(samples.rows, log_probs, samples.chosen, grades), decoded.states

    def greedy_grades(self, context: LossContext) -> Float[Tensor, " b"]:
        """Grades the greedy translation of each sentence."""
        batch = context.batch
        samples = draw_greedy(context.model, batch, self.longest)
        if self.discriminator is None:
            return self._rewards(samples, batch)
        return self._estimates(samples, batch)

    def judge(self, samples: Samples, batch: Batch) -> Float[Tensor, " n"]:
        """Asks the discriminator for the adequacy of each sample, with gradients for it."""
        assert self.discriminator is not None
        source = batch.source[samples.rows], batch.source_mask[samples.rows]
        return self.discriminator(*source, samples.labels, samples.mask)

    @torch.no_grad()
    def _estimates(self, samples: Samples, batch: Batch) -> Float[Tensor, " n"]:
        return self.judge(samples, batch).float()

    def _rewards(self, samples: Samples, batch: Batch) -> Float[Tensor, " n"]:
        sources = _texts(self.tokenizers.source, batch.source, batch.source_mask)
        references = _texts(self.tokenizers.target, batch.labels, batch.target_mask)
        rows = samples.rows.tolist()
        values = self.reward(
            [sources[row] for row in rows],
            [references[row] for row in rows],
            [self.tokenizers.target.decode(tokens) for tokens in samples.tokens],
        )
        return torch.tensor(values, device=batch.source.device)


def _texts(
    tokenizer: Tokenizer, ids: Int[Tensor, "b t"], mask: Bool[Tensor, "b t"]
) -> Sequence[str]:
    """Decodes rows of ids that end in EOS."""
    lengths = (mask.sum(1) - 1).tolist()
    rows = zip(ids.tolist(), lengths, strict=True)
    return [tokenizer.decode(row[:length]) for row, length in rows]


class CriticLoss(Loss):
    """Trains the critic to predict the grades of the samples."""

    name = "critic"
    auxiliary = False

    def __init__(self, grader: Grader, critic: Critic) -> None:
        self.grader = grader
        self.critic = critic

    def weight(self, config: TrainConfig) -> float:  # noqa: ARG002
        """Returns one: only the judges learn from it."""
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
        """Returns one: only the judges learn from it."""
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
                critic = Critic(trained.model.backbone.widths.state, _JUDGE_WIDTH)
            if config.discriminator:
                source, target = tokenizers.special_ids
                padding = (source.pad, target.pad)
                discriminator = Discriminator(tokenizers.sizes, padding, _JUDGE_WIDTH)
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
