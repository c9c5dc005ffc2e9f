"""The goal of sequence-level training, in place of the plain objective.

    (1 - mix) * what is learnt from the reference  +  mix * the estimator's loss  +  the judges' own

All are sums over sentences, so that accumulation and several processes change nothing. The source
is read once: the pass over the reference and the one over all samples share it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.copy_mechanism import TINY
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.storage.model_directory import TrainedModel
from untold.training.losses.fused_softmax import token_log_probs
from untold.training.losses.objective import Losses, parts_of, supervised
from untold.training.sequence.estimators import (
    ScoredSamples,
    actor_critic,
    centre_rewards,
    minimum_risk,
    reinforce,
    value_loss,
)
from untold.training.sequence.grading import Grader
from untold.training.sequence.judges import Critic, Discriminator
from untold.training.sequence.rewards import Reward, make_reward
from untold.training.sequence.samplers import Samples, draw_greedy, draw_samples

__all__ = ["SequenceGoal"]


class SequenceGoal:
    """Learning from whole translations; the judges start the same for the same seed."""

    def __init__(self, trained: TrainedModel, reward: Reward | None = None) -> None:
        """`reward`: that of the configuration, if it is made already."""
        config, tokenizers = trained.config, trained.tokenizers
        self.config = config.train.sequence
        self.longest = config.data.max_tokens
        self.critic, discriminator = None, None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            if self.config.kind == "actor_critic":
                self.critic = Critic(trained.model.backbone.widths.state, self.config.d_judge)
            if self.config.discriminator:
                sizes = (len(tokenizers.source), len(tokenizers.target))
                discriminator = Discriminator(sizes, self.config.d_judge)
        judges = {"critic": self.critic, "discriminator": discriminator}
        self.judges = nn.ModuleDict({k: judge for k, judge in judges.items() if judge is not None})
        self.judges.to(next(trained.model.parameters()).device)
        reward = reward or make_reward(self.config, config.data.bleu_tokenize)
        self.grader = Grader(tokenizers, reward, discriminator)
        plain = parts_of(trained.model, config.train)
        self.names = (*plain, "sequence", "reward", *self.judges)

    def __call__(self, model: Seq2Seq, batch: Batch, config: TrainConfig, step: int) -> Losses:
        """The loss of one batch at an update, and its figures."""
        outputs = model(batch.source, batch.source_mask, batch.prefix)
        plain = supervised(model, outputs, batch, config, step)
        samples = draw_samples(model, batch, self.config, self.longest)
        truth = self.grader.truth(samples, batch)
        judging: dict[str, Tensor] = {}
        if self.grader.discriminator is not None:
            judging["discriminator"] = self.grader.lesson(samples, truth, batch)
        total, parts = plain.total, plain.parts | {"reward": _shown(samples, truth, batch)}
        if step > self._first_lessons:
            grades = truth
            if self.grader.discriminator is not None:
                grades = self.grader.estimates(samples, batch)
            tried, states = _try(model, outputs, samples, grades)
            loss = self._estimate(model, batch, tried, states, judging)
            total = (1 - self.config.mix) * total + self.config.mix * loss
            parts["sequence"] = loss.detach()
        parts |= {"loss": total.detach()} | {name: v.detach() for name, v in judging.items()}
        return Losses(sum(judging.values(), total), parts)

    @property
    def _first_lessons(self) -> int:
        """Updates in which only the discriminator learns from samples."""
        return self.config.discriminator_warmup if self.config.discriminator else 0

    def _estimate(
        self,
        model: Seq2Seq,
        batch: Batch,
        tried: ScoredSamples,
        states: Float[Tensor, "n t d"],
        judging: dict[str, Tensor],
    ) -> Float[Tensor, ""]:
        """The loss of the estimator; a critic's own loss joins those of the judges."""
        config = self.config
        if config.kind == "mrt":
            return minimum_risk(tried, config.alpha)
        if self.critic is not None:
            values = self.critic(states)
            judging["critic"] = value_loss(tried, values)
            return actor_critic(tried, values)
        if config.baseline == "mean":
            return reinforce(tried, centre_rewards(tried))
        if config.baseline == "none":
            return reinforce(tried, tried.rewards)
        greedy = self.grader.estimates(draw_greedy(model, batch, config, self.longest), batch)
        return reinforce(tried, tried.rewards - greedy.to(tried.rewards.dtype)[tried.rows])


def _try(
    model: Seq2Seq, outputs: Outputs, samples: Samples, grades: Float[Tensor, " n"]
) -> tuple[ScoredSamples, Float[Tensor, "n t d"]]:
    """One pass over all samples, without label smoothing, and its decoder states."""
    decoded = model.decode(outputs.source.select(samples.rows), samples.prefix)
    real = samples.mask
    states, weight = model.backbone.output_layer().augmented(decoded.holistic[real])
    found = token_log_probs(states, weight, samples.labels[real])
    if decoded.copied is not None:
        generated = found + decoded.copied.generating[real]
        copied = decoded.copied.probability(samples.labels)[real]
        found = torch.logaddexp(generated, copied.clamp(min=TINY).log())
    log_probs = found.new_zeros(real.shape).masked_scatter(real, found)
    tried = ScoredSamples(samples.rows, log_probs, samples.chosen, grades.to(found.dtype))
    return tried, decoded.states


def _shown(samples: Samples, rewards: Float[Tensor, " n"], batch: Batch) -> Float[Tensor, ""]:
    """Sum of mean rewards times target tokens: a mean per target token is then a mean reward."""
    counts = samples.rows.bincount()[samples.rows]
    tokens = batch.target_mask.sum(1)[samples.rows]
    return (rewards * tokens / counts).sum()
