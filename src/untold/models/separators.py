"""The cheaper separators of the paper's Figure 6: CLF and ATTN.

CLF classifies each word alone. ATTN attends twice; its weights sum to one over the source, so it
cannot say that nothing is left. GDR is in capsule_routing.py.
"""

from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.config.model import SeparatorConfig
from untold.models.backbone import Widths
from untold.models.layers import full_precision, widen
from untold.models.routing import Routed, Separator
from untold.models.routing_kernels import squash

# Products of two such numbers, summed over any width, stay finite in fp32.
_LARGEST = 1e15


class _MixingSeparator(Separator):
    """Weighs each word by an MLP over [z; h[i]] and mixes the votes by these weights."""

    def __init__(
        self, config: SeparatorConfig, widths: Widths, d_capsule: int, *, d_hidden: int
    ) -> None:
        super().__init__(config, widths, d_capsule)
        self.key = nn.Linear(widths.source, d_hidden, bias=False)
        self.guide = nn.Linear(widths.state, d_hidden)

    def cast(
        self,
        states: Float[Tensor, "b i d"],
        mask: Bool[Tensor, "b i"],  # noqa: ARG002
    ) -> tuple[Tensor, ...]:
        """Returns the votes and W_h h."""
        return self.votes(states), self.key(states.clamp(-_LARGEST, _LARGEST))

    def forward(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
        prior: Float[Tensor, "b j t i"] | None = None,  # noqa: ARG002
    ) -> Routed:
        """Mixes the votes; the capsules of a category share its weights evenly."""
        cast, keys = votes
        seen = self.guide(guide.clamp(-_LARGEST, _LARGEST))
        weights = self.weights((seen[:, :, None] + keys[:, None]).tanh(), mask)
        with full_precision(cast):
            return _gather(widen(cast), widen(weights), self.counts)

    @abstractmethod
    def weights(
        self, hidden: Float[Tensor, "b t i a"], mask: Bool[Tensor, "b i"]
    ) -> Float[Tensor, "b t i g"]:
        """Returns the weight of each word in each category; zero on padding."""


class ClassifierSeparator(_MixingSeparator):
    """CLF: a softmax over the categories, so weights sum to one over them."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__(config, widths, d_capsule, d_hidden=d_capsule)
        self.classes = nn.Linear(d_capsule, sum(count > 0 for count in self.counts))

    def weights(
        self, hidden: Float[Tensor, "b t i a"], mask: Bool[Tensor, "b i"]
    ) -> Float[Tensor, "b t i g"]:
        """Classifies each word by itself."""
        return self.classes(hidden).softmax(-1) * mask[:, None, :, None]


class AttentionSeparator(_MixingSeparator):
    """ATTN: two independent attentions, for past and future; each sums to one over words."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__(config, widths, d_capsule, d_hidden=2 * d_capsule)
        self.weight = nn.Parameter(torch.empty(2, d_capsule))
        nn.init.xavier_uniform_(self.weight)

    def weights(
        self, hidden: Float[Tensor, "b t i a"], mask: Bool[Tensor, "b i"]
    ) -> Float[Tensor, "b t i g"]:
        """Attends to the real words."""
        scores = torch.linalg.vecdot(hidden.unflatten(-1, (2, -1)), self.weight)
        return scores.masked_fill(~mask[:, None, :, None], -torch.inf).softmax(2)


def _gather(
    votes: Float[Tensor, "b j i c"],
    weights: Float[Tensor, "b t i g"],
    counts: tuple[int, int, int],
) -> Routed:
    """Fills the capsules; those of one category g share its weights evenly."""
    present = [count for count in counts if count]
    parts = [
        weights[..., group, None].expand(-1, -1, -1, count) / count
        for group, count in enumerate(present)
    ]
    assignments = torch.cat(parts, dim=-1)
    capsules = squash(assignments.permute(0, 3, 1, 2) @ votes)
    return Routed(capsules.transpose(1, 2), assignments)
