"""Bilingual content agreement: past capsules resemble what was decoded, future ones what will be.

    past:   |Omega_P,t - W_P mean(z_1..z_t)|^2        future:   |Omega_F,t - W_F mean(z_t..z_T)|^2

The states are fixed targets. Written this way, W = 0 and Omega = 0 are a minimum; the other
direction of the maps, |W Omega - mean z|^2, has none that is trivial.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.config import TrainConfig
from untold.models.past_future import Heads, Separated
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.loss import Loss, LossContext

__all__ = ["ContentAgreementLoss", "content_loss", "running_means"]


class ContentAgreementLoss(Loss):
    """Trains the capsules to agree with the decoder states."""

    name = "bca"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.bca_weight."""
        return config.bca_weight

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Needs capsules."""
        return model.past_future is not None

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the agreement of the batch."""
        mask, heads = context.batch.target_mask, context.past_future.heads
        return content_loss(context.separated, context.outputs.states, mask, heads)


def content_loss(
    separated: Separated,
    states: Float[Tensor, "b t d"],
    mask: Bool[Tensor, "b t"],
    heads: Heads,
) -> Float[Tensor, ""]:
    """Averages over the steps of each sentence and sums over the sentences."""
    past, future = running_means(states.detach(), mask)
    if heads.to_state:
        differences = (
            heads.bca_past(separated.past) - past,
            heads.bca_future(separated.future) - future,
        )
    else:
        differences = (
            separated.past - heads.bca_past(past),
            separated.future - heads.bca_future(future),
        )
    per_step = sum((part.square().sum(-1) for part in differences), torch.zeros(()))
    real = mask.to(states.dtype)
    return (per_step * real / real.sum(1, keepdim=True)).sum()


def running_means(
    states: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]
) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t d"]]:
    """Computes for every position the mean of the states up to it, and of those from it on."""
    real = mask[..., None].to(states.dtype)
    states = states * real
    through, counts = states.cumsum(1), real.cumsum(1)
    rest = states.sum(1, keepdim=True) - through + states
    left = real.sum(1, keepdim=True) - counts + real
    return through / counts.clamp(min=1), rest / left.clamp(min=1)
