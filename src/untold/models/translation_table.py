"""A translation table without context: which source and target words translate each other.

    theta(x | y) = softmax over x of <U_x, V_y>          theta(y | x) = softmax over y of the same

"Nothing" is one more word on either side. The table knows no context, so it can explain a word only
by its own translation: that makes it a teacher of the routing (training/losses/link_loss.py).
Translating does not need it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

__all__ = ["TranslationTable"]

_SCORES_AT_ONCE = 16_000_000  # bounds the memory of large vocabularies


class TranslationTable(nn.Module):
    """Computes theta from two tables of vectors; the last row of each stands for nothing."""

    def __init__(self, vocabularies: tuple[int, int], width: int) -> None:
        """`vocabularies` are sizes, source first."""
        super().__init__()
        self.source, self.target = (
            nn.Parameter(torch.empty(size + 1, width)) for size in vocabularies
        )
        nn.init.normal_(self.source, std=width**-0.5)
        nn.init.normal_(self.target, std=width**-0.5)

    def forward(
        self, source: Int[Tensor, "b i"], target: Int[Tensor, "b t"]
    ) -> tuple[Float[Tensor, "b t1 i"], Float[Tensor, "b t i1"]]:
        """Returns log theta(x | y) and log theta(y | x) of the words of each pair.

        The last row of the first stands for y = nothing, the last column of the second for
        x = nothing.
        """
        of_source = _log_theta(self.target, target, self.source, source)
        of_target = _log_theta(self.source, source, self.target, target)
        return of_source, of_target.transpose(1, 2)


def _log_theta(
    table: Float[Tensor, "v w"],
    given: Int[Tensor, "b n"],
    others: Float[Tensor, "o w"],
    explained: Int[Tensor, "b m"],
) -> Float[Tensor, "b n1 m"]:
    """Returns log theta of the explained words given each other word and, last, nothing."""
    types, rows = pad(given, (0, 1), value=len(table) - 1).unique(return_inverse=True)
    parts = types.split(max(1, _SCORES_AT_ONCE // len(others)))
    totals = [  # scores are computed in chunks, and again for gradients
        checkpoint(_total, table, part, others, use_reentrant=False, preserve_rng_state=False)
        for part in parts
    ]
    scores = table[types][rows] @ others[explained].transpose(1, 2)
    return scores - torch.cat(totals)[rows][..., None]


def _total(
    table: Float[Tensor, "v w"], types: Int[Tensor, " u"], others: Float[Tensor, "o w"]
) -> Float[Tensor, " u"]:
    """Returns the log of the normaliser: the sum over all words of the other side."""
    return (table[types] @ others.T).logsumexp(-1)
