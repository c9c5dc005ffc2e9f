"""What samples are worth: by the reward itself, or by a discriminator that learns it."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.corpus.batching import Batch
from untold.corpus.tokenizer import Tokenizer, Tokenizers
from untold.training.sequence.judges import Discriminator, adequacy_loss
from untold.training.sequence.rewards import Reward
from untold.training.sequence.samplers import Samples

__all__ = ["Grader"]


class Grader:
    """Grades samples; with a discriminator the model learns from estimates, it from the truth."""

    def __init__(
        self, tokenizers: Tokenizers, reward: Reward, discriminator: Discriminator | None
    ) -> None:
        self.tokenizers = tokenizers
        self.reward = reward
        self.discriminator = discriminator

    def truth(self, samples: Samples, batch: Batch) -> Float[Tensor, " n"]:
        """The reward of each sample."""
        sources = _texts(self.tokenizers.source, batch.source, batch.source_mask)
        references = _texts(self.tokenizers.target, batch.labels, batch.target_mask)
        rows = samples.rows.tolist()
        values = self.reward(
            [sources[row] for row in rows],
            [references[row] for row in rows],
            [self.tokenizers.target.decode(tokens) for tokens in samples.tokens],
        )
        return torch.tensor(values, device=batch.source.device)

    @torch.no_grad()
    def estimates(self, samples: Samples, batch: Batch) -> Float[Tensor, " n"]:
        """What the discriminator, if there is one, thinks of each sample; else the truth."""
        if self.discriminator is None:
            return self.truth(samples, batch)
        return self._judge(samples, batch).float()

    def lesson(
        self, samples: Samples, truth: Float[Tensor, " n"], batch: Batch
    ) -> Float[Tensor, ""]:
        """The discriminator's loss on rewards of samples (their mean a sentence) and references.

        A reference is worth one. It learns from samples after the model has: they take turns.
        """
        assert self.discriminator is not None
        counts = samples.rows.bincount()[samples.rows]
        loss = adequacy_loss(self._judge(samples, batch), truth, 1 / counts.to(truth.dtype))
        real = self.discriminator(batch.source, batch.source_mask, batch.labels, batch.target_mask)
        ones = torch.ones(len(real), device=truth.device)
        return loss + adequacy_loss(real, ones, ones)

    def _judge(self, samples: Samples, batch: Batch) -> Float[Tensor, " n"]:
        assert self.discriminator is not None
        source = batch.source[samples.rows], batch.source_mask[samples.rows]
        return self.discriminator(*source, samples.labels, samples.mask)


def _texts(
    tokenizer: Tokenizer, ids: Int[Tensor, "b t"], mask: Bool[Tensor, "b t"]
) -> Sequence[str]:
    """Of rows that end in EOS."""
    lengths = (mask.sum(1) - 1).tolist()
    rows = zip(ids.tolist(), lengths, strict=True)
    return [tokenizer.decode(row[:length]) for row, length in rows]
