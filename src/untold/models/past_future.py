"""Past and future on top of any backbone: separate, fuse, and the heads that the losses train.

    o_t = finish(readout_t + fusion([z_t; Omega_P; Omega_F]))

where the readout of a Transformer is z_t itself and nothing is left to finish. The fusion starts at
zero, so that a model built on a trained backbone begins as that backbone. The redundant capsules
compete for words and are read by nothing. The heads serve training and analysis alone: a model
without them translates the same.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config import ModelConfig
from untold.models.backbone import Source, Widths
from untold.models.capsule_routing import Routed
from untold.models.layers import FeedForward
from untold.models.routing_prior import RoutingPrior
from untold.models.separators import SEPARATORS
from untold.models.translation_table import TranslationTable

__all__ = ["FeedForwardFusion", "Heads", "LinearFusion", "PastFuture", "Separated"]


@dataclass(frozen=True)
class Separated:
    """What was made of the source at every target position (or beam) t."""

    routed: Routed
    past: Float[Tensor, "b t p"]  # the capsules of the category, scaled, one after the other
    future: Float[Tensor, "b t f"]
    shares: Float[Tensor, "b t i g"]  # of each word: past, future, redundant; zero on padding
    covered: Float[Tensor, "b t i"] | None = None  # after the position: see coverage.py


class PastFuture(nn.Module):
    """A separator, its fusion into the decoder, and its heads."""

    def __init__(self, config: ModelConfig, widths: Widths, vocabularies: tuple[int, int]) -> None:
        """`widths`: of the backbone that all of it sits on; `vocabularies`: sizes, source first."""
        super().__init__()
        settings = config.separator
        d_capsule = settings.d_capsule or max(1, widths.output // 2)
        self.counts = settings.counts
        self.backbone_gradient = settings.backbone_gradient
        self.separator = SEPARATORS[settings.kind](settings, widths, d_capsule)
        self.coverage = None
        if settings.kind == "gdr" and settings.coverage and settings.num_iterations > 1:
            self.coverage = RoutingPrior(widths, d_capsule, self.counts)
        self.scale = None
        if settings.capsule_scale:
            # Squashed capsules are shorter than one: too short for heads over a vocabulary.
            self.scale = nn.Parameter(torch.full((sum(self.counts[:2]),), d_capsule**0.5))
        capsules = (self.counts[0] * d_capsule, self.counts[1] * d_capsule)
        if settings.fusion == "ffn":
            self.fusion = FeedForwardFusion(config, widths, sum(capsules))
        else:
            self.fusion = LinearFusion(widths, sum(capsules))
        self.heads = Heads(capsules, widths, to_state=settings.bca_direction == "capsule_to_state")
        if settings.lexicon:  # last: all else is drawn as it would be without it
            self.heads.lexicon = TranslationTable(vocabularies, settings.lexicon)

    def damp(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """x, of whose gradient only a share goes on to the backbone."""
        share = self.backbone_gradient
        if share == 1.0:
            return x
        return x.detach() if share == 0.0 else x.detach() + share * (x - x.detach())

    def cast(self, source: Source) -> Source:
        """The source with its votes."""
        states = self.damp(source.states)
        votes = self.separator.cast(states, source.mask)
        if self.coverage is not None:
            votes = (*votes, *self.coverage.cast(states))
        return replace(source, votes=votes)

    def separate(
        self,
        source: Source,
        states: Float[Tensor, "b t d"],
        covered: Float[Tensor, "b t i"] | None = None,
    ) -> Separated:
        """Tell the words of a source with votes apart, as seen from decoder states.

        `covered`: what each of the states has behind it, if they are one step of several beams;
        without it they are a whole target, each of them after the other.
        """
        guide, votes, prior = self.damp(states), source.votes, None
        if self.coverage is not None:
            *votes, keys, words = votes
            focus = self.coverage.focus(keys, source.mask, guide)
            before = focus.cumsum(1) - focus if covered is None else covered
            prior, covered = self.coverage.prior(words, before), before + focus
        routed = self.separator(tuple(votes), source.mask, guide, prior)
        past, future, _ = routed.capsules.split(self.counts, dim=2)
        if self.scale is not None:
            past = past * self.scale[: self.counts[0], None]
            future = future * self.scale[self.counts[0] :, None]
        parts = routed.assignments.split(self.counts, dim=-1)
        shares = torch.stack([part.sum(-1) for part in parts], dim=-1)
        return Separated(routed, past.flatten(2), future.flatten(2), shares, covered)

    def fuse(self, states: Float[Tensor, "b t d"], separated: Separated) -> Float[Tensor, "b t o"]:
        """What past and future add to the readout; zero at first."""
        return self.fusion(states, torch.cat([separated.past, separated.future], dim=-1))


class FeedForwardFusion(nn.Module):
    """FFN(norm([z; capsules])), as in the paper."""

    def __init__(self, config: ModelConfig, widths: Widths, capsules: int) -> None:
        """`capsules`: how wide all that is fed is."""
        super().__init__()
        width = widths.state + capsules
        self.norm = nn.LayerNorm(width)
        self.transform = FeedForward(width, config.d_ffn, config.dropout, d_out=widths.output)
        nn.init.xavier_uniform_(self.transform.inner.weight)
        nn.init.zeros_(self.transform.inner.bias)
        nn.init.zeros_(self.transform.outer.weight)
        nn.init.zeros_(self.transform.outer.bias)

    @property
    def is_silent(self) -> bool:
        """Whether it adds nothing, as at first."""
        return not (self.transform.outer.weight.any() or self.transform.outer.bias.any())

    def forward(
        self, states: Float[Tensor, "b t d"], capsules: Float[Tensor, "b t w"]
    ) -> Float[Tensor, "b t o"]:
        """Position by position."""
        return self.transform(self.norm(torch.cat([states, capsules], dim=-1)))


class LinearFusion(nn.Module):
    """W capsules: nearly free."""

    def __init__(self, widths: Widths, capsules: int) -> None:
        """`capsules`: how wide all that is fed is."""
        super().__init__()
        self.transform = nn.Linear(capsules, widths.output, bias=False)
        nn.init.zeros_(self.transform.weight)

    @property
    def is_silent(self) -> bool:
        """Whether it adds nothing, as at first."""
        return not self.transform.weight.any()

    def forward(
        self,
        states: Float[Tensor, "b t d"],  # noqa: ARG002
        capsules: Float[Tensor, "b t w"],
    ) -> Float[Tensor, "b t o"]:
        """Position by position."""
        return self.transform(capsules)


class Heads(nn.Module):
    """Linear maps between capsules and words (bags) or states (agreement), and a lexicon."""

    def __init__(self, capsules: tuple[int, int], widths: Widths, *, to_state: bool) -> None:
        """`capsules`: how wide past and future are; `to_state`: agreement maps capsules."""
        super().__init__()
        self.lexicon: TranslationTable | None = None
        past, future = capsules
        state, self.to_state = widths.state, to_state
        self.bow_past = nn.Linear(past, widths.output, bias=False)
        self.bow_future = nn.Linear(future, widths.output, bias=False)
        self.bca_past = nn.Linear(*((past, state) if to_state else (state, past)), bias=False)
        self.bca_future = nn.Linear(*((future, state) if to_state else (state, future)), bias=False)
        for head in (self.bow_past, self.bow_future, self.bca_past, self.bca_future):
            nn.init.xavier_uniform_(head.weight)
