"""A lexicon beside the model: what a target word, or no word at all, stands for in the source.

    theta(x | y) = softmax over x of <U_x, V_y>          nothing is one more y

It knows no context, so it can explain a source word only by the right target word: that makes it a
teacher of the routing (training/lexicon.py). No translation needs it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

__all__ = ["Lexicon"]

_SCORES_AT_ONCE = 16_000_000  # bounds the memory of large vocabularies


class Lexicon(nn.Module):
    """Theta, by two tables of vectors."""

    def __init__(self, vocabularies: tuple[int, int], width: int) -> None:
        """`vocabularies`: the sizes of the source's and the target's."""
        super().__init__()
        self.source = nn.Parameter(torch.empty(vocabularies[0], width))
        self.target = nn.Parameter(torch.empty(vocabularies[1] + 1, width))  # the last is nothing
        nn.init.normal_(self.source, std=width**-0.5)
        nn.init.normal_(self.target, std=width**-0.5)

    def forward(
        self, source: Int[Tensor, "b i"], target: Int[Tensor, "b t"]
    ) -> tuple[Float[Tensor, "b t i"], Float[Tensor, "b i"]]:
        """log theta of each source word given each target word, and given nothing."""
        nothing = torch.full_like(source[:, :1], len(self.target) - 1)
        given = torch.cat([target, nothing], dim=1)
        scores = self.target[given] @ self.source[source].transpose(1, 2)
        types, places = given.unique(return_inverse=True)
        log_theta = scores - self._totals(types)[places][..., None]
        return log_theta[:, :-1], log_theta[:, -1]

    def _totals(self, types: Int[Tensor, " u"]) -> Float[Tensor, " u"]:
        """log of the sum over the source vocabulary; scores are made in chunks, and made again for
        gradients."""
        parts = types.split(max(1, _SCORES_AT_ONCE // len(self.source)))
        made = [
            checkpoint(self._total, part, use_reentrant=False, preserve_rng_state=False)
            for part in parts
        ]
        return torch.cat(made)

    def _total(self, types: Int[Tensor, " u"]) -> Float[Tensor, " u"]:
        return (self.target[types] @ self.source.T).logsumexp(-1)
