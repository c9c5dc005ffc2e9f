"""Both ends of a target are known without alignments: at first nothing is said, at last nothing is
left. Words without a translation can then only be redundant.

    sum over source words i of  -log(1 - past_1[i]) - log(1 - future_T[i])
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.categories import FUTURE, PAST

__all__ = ["ends_loss"]

_NEARLY_ONE = 1 - 1e-6  # keeps the logarithm and its gradient finite


def ends_loss(shares: Float[Tensor, "b t i g"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, ""]:
    """Summed over sentences; position T, the last real one, is about to say EOS."""
    wrong = torch.cat([shares[:, 0, :, PAST], _at_the_end(shares, mask)[..., FUTURE]])
    return -(-wrong.clamp(max=_NEARLY_ONE)).log1p().sum()


def _at_the_end(
    shares: Float[Tensor, "b t i g"], mask: Bool[Tensor, "b t"]
) -> Float[Tensor, "b i g"]:
    """The shares of each sentence at its last real position."""
    rows = torch.arange(len(mask), device=mask.device)
    return shares[rows, mask.sum(1).sub(1).clamp(min=0)]
