"""RoutingPrior: what each step looked at in the source, summed up, is where routing starts from.

    a_t = softmax_i <K z_t, U h_i> / sqrt(c)         the words that step t speaks of
    covered_t[i] = sum over t' < t of a_t'[i]        what was spoken of before it
    b[i,j] += strength_j (covered_t[i] - 1/2) + <u_j, h_i>

A decoder state knows best what it is about to say, and less what was said long ago: the sum
remembers. It grows with what was really said, not with the distance to the end. The second term
says what a word is by itself: function words tend to be redundant. Letters as in routing.py.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.models.backbone import Widths

__all__ = ["RoutingPrior"]

_STRENGTH = 4.0  # at first: a word looked at once is past, one not looked at is future


class RoutingPrior(nn.Module):
    """Prior logits of the routing, from what was covered."""

    def __init__(self, widths: Widths, d_key: int, counts: tuple[int, int, int]) -> None:
        super().__init__()
        self.key = nn.Linear(widths.source, d_key, bias=False)
        self.query = nn.Linear(widths.state, d_key, bias=False)
        self.word = nn.Linear(widths.source, sum(counts), bias=False)
        signs = torch.tensor([1.0] * counts[0] + [-1.0] * counts[1] + [0.0] * counts[2])
        self.strength = nn.Parameter(_STRENGTH * signs)
        self.scale = d_key**-0.5
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.zeros_(self.word.weight)

    def cast(self, states: Float[Tensor, "b i d"]) -> tuple[Tensor, Tensor]:
        """All that depends on the source alone: keys, and what each word is by itself."""
        return self.key(states), self.word(states).transpose(1, 2)

    def focus(
        self,
        keys: Float[Tensor, "b i c"],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
    ) -> Float[Tensor, "b t i"]:
        """What each position speaks of: sums to one over the real words."""
        scores = (self.query(guide) * self.scale) @ keys.transpose(1, 2)
        return scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)

    def prior(
        self, words: Float[Tensor, "b j i"], covered: Float[Tensor, "b t i"]
    ) -> Float[Tensor, "b j t i"]:
        """What is added to the logits of the routing."""
        return self.strength[:, None, None] * (covered[:, None] - 0.5) + words[:, :, None]
