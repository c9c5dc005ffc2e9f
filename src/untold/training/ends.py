"""Both ends of a target are known without alignments: at first nothing is said, at last nothing is
left. Words without a translation can then only be redundant.

    sum over source words i of  -log(1 - past_1[i]) - log(1 - future_T[i])
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["ends_loss"]

_NEARLY_ONE = 1 - 1e-6  # keeps the logarithm and its gradient finite


def ends_loss(shares: Float[Tensor, "b t i g"], mask: Bool[Tensor, "b t"]) -> Float[Tensor, ""]:
    """Summed over sentences; position T, the last real one, is about to say EOS."""
    last = mask.sum(1).sub(1).clamp(min=0)[:, None, None].expand(-1, 1, shares.shape[2])
    future = shares[..., 1].gather(1, last)
    wrong = torch.cat([shares[:, :1, :, 0], future]).clamp(max=_NEARLY_ONE)
    return -(-wrong).log1p().sum()
