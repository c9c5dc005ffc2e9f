"""The ends loss: before the first target word nothing is past, after the last nothing is future.

    sum over source words i of  -log(1 - past_1[i]) - log(1 - future_T[i])

Both hold without any alignment. Words without a translation can then only be redundant.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.categories import FUTURE, PAST
from untold.config import TrainConfig
from untold.models.layers import widen
from untold.training.losses.loss import LossContext, SeparationLoss

__all__ = ["EndsLoss", "ends_loss"]

_NEARLY_ONE = 1 - 1e-6  # keeps the logarithm and its gradient finite


class EndsLoss(SeparationLoss):
    """Trains the assignments at both ends of a target."""

    name = "ends"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.ends_weight."""
        return config.ends_weight

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the ends loss of the batch."""
        return ends_loss(context.separated.shares, context.batch.target_mask)


def ends_loss(shares: Float[Tensor, "b t i g"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, ""]:
    """Sums over sentences; position T is the last real one, which predicts EOS."""
    rows, last = torch.arange(len(mask), device=mask.device), mask.sum(1).sub(1).clamp(min=0)
    past, future = shares[:, 0, :, PAST], shares[rows, last][..., FUTURE]
    both = widen(torch.cat([past, future]))  # in 16 bits, nearly one would be one
    return -(-both.clamp(max=_NEARLY_ONE)).log1p().sum()
