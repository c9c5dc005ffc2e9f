"""Separators: what tells source words apart as past, future and redundant at every target position.

All have one interface, so that neither the fusion nor the losses know which it is:

    cast(states, mask)      -> votes     once a sentence; carried in Source
    forward(votes, mask, z) -> Routed    for all target positions, or for the beams of one step

GDR routes words to capsules by agreement. CLF classifies each word alone. ATTN attends twice, and
since its weights sum to one over the source it cannot say that nothing is left.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.config import SEPARATORS, SeparatorConfig
from untold.models.backbone import Widths
from untold.models.capsule_routing import Routed, mlp_scores, route, squash, uniform

__all__ = [
    "SEPARATORS",
    "AttentionSeparator",
    "ClassifierSeparator",
    "DotAgreement",
    "GuidedRouting",
    "MlpAgreement",
    "Separator",
]

# Products of two such numbers, summed over any width, stay finite in fp32.
_LARGEST = 1e15


class Separator(nn.Module, ABC):
    """v[i,j] = W_j h[i]: every source word votes for every capsule."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__()
        self.counts = config.counts
        self.vote = nn.Linear(widths.source, sum(self.counts) * d_capsule, bias=False)
        _initialise_by_capsule(self.vote, d_capsule)

    def votes(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b j i c"]:
        """Capsules before words, so that all products are batched ones."""
        flat = self.vote(states.clamp(-_LARGEST, _LARGEST))
        return flat.unflatten(-1, (sum(self.counts), -1)).transpose(1, 2).contiguous()

    @abstractmethod
    def cast(self, states: Float[Tensor, "b i d"], mask: Bool[Tensor, "b i"]) -> tuple[Tensor, ...]:
        """All that depends on the source alone; the first axis of each tensor is b."""

    @abstractmethod
    def forward(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
        prior: Float[Tensor, "b j t i"] | None = None,
    ) -> Routed:
        """What each target position makes of the source words; positions do not see each other.

        `prior`: logits that a routing starts from.
        """


class GuidedRouting(Separator):
    """GDR: routing by agreement, seen from the decoder state."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__(config, widths, d_capsule)
        self.rounds = config.num_iterations - 1
        self.agreement = None  # a single round is uniform: there is nothing to agree on
        if self.rounds and config.agreement == "dot":
            self.agreement = DotAgreement(widths.state, d_capsule, sum(self.counts))
        elif self.rounds:
            self.agreement = MlpAgreement(widths.state, d_capsule)

    def cast(self, states: Float[Tensor, "b i d"], mask: Bool[Tensor, "b i"]) -> tuple[Tensor, ...]:
        """Votes, the capsules of the first round as the agreement sees them, and its keys."""
        votes = self.votes(states)
        if self.agreement is None:
            return (votes,)
        first = uniform(votes, mask).capsules.transpose(1, 2)
        keys = self.agreement.keys(votes)
        found = votes, self.agreement.capsule(first)
        return found if keys is votes else (*found, keys)

    def forward(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
        prior: Float[Tensor, "b j t i"] | None = None,
    ) -> Routed:
        """Assignments sum to one over the capsules."""
        agreement = self.agreement
        if agreement is None:
            return uniform(votes[0], mask, guide.shape[1])
        cast, first, *keys = votes
        seen = agreement.guided(guide.clamp(-_LARGEST, _LARGEST))

        def agree(capsules: Tensor | None) -> Tensor:
            mapped = first if capsules is None else agreement.capsule(capsules)
            scores = agreement.scores(keys[0] if keys else cast, mapped + seen)
            return scores if capsules is not None or prior is None else scores + prior

        return route(cast, mask, self.rounds, agree)


class DotAgreement(nn.Module):
    """<v[i,j], W_o Omega[j] + W_z^(j) z> / sqrt(c): every capsule has a guide of its own."""

    def __init__(self, d_state: int, d_capsule: int, capsules: int) -> None:
        super().__init__()
        self.guide = nn.Linear(d_state, capsules * d_capsule, bias=False)
        self.capsule = nn.Linear(d_capsule, d_capsule, bias=False)
        self.scale = d_capsule**-0.5
        self.capsules = capsules
        _initialise_by_capsule(self.guide, d_capsule)
        nn.init.xavier_uniform_(self.capsule.weight)

    def keys(self, votes: Float[Tensor, "b j i c"]) -> Float[Tensor, "b j i c"]:
        """The votes themselves."""
        return votes

    def guided(self, guide: Float[Tensor, "b t d"]) -> Float[Tensor, "b j t c"]:
        """W_z^(j) z."""
        return self.guide(guide).unflatten(-1, (self.capsules, -1)).transpose(1, 2)

    def scores(
        self, keys: Float[Tensor, "b j i c"], query: Float[Tensor, "b j t c"]
    ) -> Float[Tensor, "b j t i"]:
        """Products of all pairs."""
        return (query * self.scale) @ keys.transpose(-1, -2)


class MlpAgreement(nn.Module):
    """w . tanh(W_z z + W_v v[i,j] + W_o Omega[j] + bias): one for all capsules, as in the paper."""

    def __init__(self, d_state: int, d_capsule: int) -> None:
        super().__init__()
        self.guide = nn.Linear(d_state, d_capsule)
        self.key = nn.Linear(d_capsule, d_capsule, bias=False)
        self.capsule = nn.Linear(d_capsule, d_capsule, bias=False)
        self.weight = nn.Parameter(torch.empty(d_capsule).uniform_(-1, 1) / d_capsule)
        for linear in (self.guide, self.key, self.capsule):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.guide.bias)

    def keys(self, votes: Float[Tensor, "b j i c"]) -> Float[Tensor, "b j i c"]:
        """W_v v."""
        return self.key(votes)

    def guided(self, guide: Float[Tensor, "b t d"]) -> Float[Tensor, "b 1 t c"]:
        """W_z z + bias."""
        return self.guide(guide)[:, None]

    def scores(
        self, keys: Float[Tensor, "b j i c"], query: Float[Tensor, "b j t c"]
    ) -> Float[Tensor, "b j t i"]:
        """Of all pairs, tile by tile."""
        return mlp_scores(keys, query, self.weight)


class _MixingSeparator(Separator):
    """Weighs words by what an MLP over [z; h[i]] says, each by itself, and mixes their votes."""

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
        """Votes, and W_h h."""
        return self.votes(states), self.key(states.clamp(-_LARGEST, _LARGEST))

    def forward(
        self,
        votes: tuple[Tensor, ...],
        mask: Bool[Tensor, "b i"],
        guide: Float[Tensor, "b t d"],
        prior: Float[Tensor, "b j t i"] | None = None,  # noqa: ARG002
    ) -> Routed:
        """The capsules of a category share its weights evenly."""
        cast, keys = votes
        seen = self.guide(guide.clamp(-_LARGEST, _LARGEST))
        weights = self.weights((seen[:, :, None] + keys[:, None]).tanh(), mask)
        return _gather(cast, weights, self.counts)

    @abstractmethod
    def weights(
        self, hidden: Float[Tensor, "b t i a"], mask: Bool[Tensor, "b i"]
    ) -> Float[Tensor, "b t i g"]:
        """Of each word in each category; zero on padding."""


class ClassifierSeparator(_MixingSeparator):
    """CLF: a softmax over the categories; weights sum to one over them."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__(config, widths, d_capsule, d_hidden=d_capsule)
        self.classes = nn.Linear(d_capsule, sum(count > 0 for count in self.counts))

    def weights(
        self, hidden: Float[Tensor, "b t i a"], mask: Bool[Tensor, "b i"]
    ) -> Float[Tensor, "b t i g"]:
        """Each word by itself."""
        return self.classes(hidden).softmax(-1) * mask[:, None, :, None]


class AttentionSeparator(_MixingSeparator):
    """ATTN: two attentions of their own, for past and future, each summing to one over words."""

    def __init__(self, config: SeparatorConfig, widths: Widths, d_capsule: int) -> None:
        super().__init__(config, widths, d_capsule, d_hidden=2 * d_capsule)
        self.weight = nn.Parameter(torch.empty(2, d_capsule))
        nn.init.xavier_uniform_(self.weight)

    def weights(
        self, hidden: Float[Tensor, "b t i a"], mask: Bool[Tensor, "b i"]
    ) -> Float[Tensor, "b t i g"]:
        """Among the real words."""
        scores = torch.linalg.vecdot(hidden.unflatten(-1, (2, -1)), self.weight)
        return scores.masked_fill(~mask[:, None, :, None], -torch.inf).softmax(2)


def _gather(
    votes: Float[Tensor, "b j i c"],
    weights: Float[Tensor, "b t i g"],
    counts: tuple[int, int, int],
) -> Routed:
    """Capsules of one category g share its weights evenly."""
    present = [count for count in counts if count]
    parts = [
        weights[..., group, None].expand(-1, -1, -1, count) / count
        for group, count in enumerate(present)
    ]
    assignments = torch.cat(parts, dim=-1)
    capsules = squash(assignments.permute(0, 3, 1, 2) @ votes)
    return Routed(capsules.transpose(1, 2), assignments)


def _initialise_by_capsule(linear: nn.Linear, d_capsule: int) -> None:
    """Xavier for each capsule's own map, not for the stack of them."""
    for weight in linear.weight.data.split(d_capsule):
        nn.init.xavier_uniform_(weight)
