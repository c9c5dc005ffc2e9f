"""The grader: draws translations of a batch, grades them, and scores them under the model."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.corpus.batching import Batch
from untold.corpus.tokenizer import Tokenizer, Tokenizers
from untold.models.copy_mechanism import TINY
from untold.training.losses.cross_entropy import token_log_probs
from untold.training.losses.loss import LossContext
from untold.training.sequence.critics import Discriminator
from untold.training.sequence.estimators import ScoredSamples
from untold.training.sequence.rewards import Reward
from untold.training.sequence.samplers import Samples, draw_greedy, draw_samples

__all__ = ["Grader"]


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
        real, embedding = samples.mask, model.output_embedding()
        found = token_log_probs(decoded.holistic[real], embedding, samples.labels[real])
        if decoded.copied is not None:
            generated = found + decoded.copied.generating[real]
            copied = decoded.copied.probability(samples.labels)[real]
            found = torch.logaddexp(generated, copied.clamp(min=TINY).log())
        log_probs = found.new_zeros(real.shape).masked_scatter(real, found)
        grades = grades.to(found.dtype)
        return ScoredSamples(samples.rows, log_probs, samples.chosen, grades), decoded.states

    def greedy_grades(self, context: LossContext) -> Float[Tensor, " b"]:
        """Grades the greedy translation of each sentence."""
        config, batch = context.config.sequence, context.batch
        samples = draw_greedy(context.model, batch, config, self.longest)
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
