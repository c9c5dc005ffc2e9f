"""Past and future on top of any backbone: the separator, its fusion, and heads for the losses.

    o_t = finish(readout_t + fusion([z_t; Omega_P; Omega_F]))

The readout of a Transformer is z_t itself, and its `finish` changes nothing. The fusion starts at
zero, so that a model built on a trained backbone begins as that backbone. The redundant capsules
compete for words, but nothing reads them. The heads serve training and analysis alone: a model
without them translates the same.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config.model import SEPARATORS, ModelConfig
from untold.models.backbone import Source, Widths
from untold.models.layers import FeedForward
from untold.models.routing import Reading, Routed, RoutingPrior
from untold.models.translation_table import TranslationTable


@dataclass(frozen=True)
class Separated:
    """Holds past, future and redundant as seen from every target position (or beam) t."""

    routed: Routed
    past: Float[Tensor, "b t p"]  # the scaled capsules of the category, concatenated
    future: Float[Tensor, "b t f"]
    shares: Float[Tensor, "b t i g"]  # past, future, redundant of each word; zero on padding
    fused: Float[Tensor, "b t o"]  # what past and future add to the readout; zero at first
    covered: Float[Tensor, "b t i"] | None = None  # after the position: see RoutingPrior


class PastFuture(nn.Module):
    """Joins a separator, its fusion into the decoder, and the heads that losses train."""

    def __init__(self, config: ModelConfig, widths: Widths, vocabularies: tuple[int, int]) -> None:
        """`widths` are those of the backbone; `vocabularies` are sizes, source first."""
        super().__init__()
        settings = config.separator
        d_capsule = settings.d_capsule or max(1, widths.output // 2)
        self.counts = settings.counts
        self.backbone_gradient = settings.backbone_gradient
        self.separator = SEPARATORS[settings.kind](settings, widths, d_capsule)
        self.coverage = None
        if settings.kind == "gdr" and settings.coverage and settings.num_iterations > 1:
            self.coverage = RoutingPrior(
                widths, d_capsule, self.counts, reads_token=settings.token_coverage
            )
        self.scale = None
        if settings.capsule_scale:
            # Squashed capsules are shorter than one: too short for heads over a vocabulary.
            self.scale = nn.Parameter(torch.full((sum(self.counts[:2]),), d_capsule**0.5))
        capsules = (self.counts[0] * d_capsule, self.counts[1] * d_capsule)
        if settings.fusion == "ffn":
            self.fusion = FeedForwardFusion(config, widths, sum(capsules))
        else:
            self.fusion = LinearFusion(widths, sum(capsules))
        self.heads = Heads(capsules, widths)
        if settings.lexicon:  # created last: it changes the random numbers of nothing else
            self.heads.lexicon = TranslationTable(vocabularies, settings.lexicon)

    @property
    def reads_tokens(self) -> bool:
        """Tells if separation needs the embeddings of the tokens that were read."""
        return self.coverage is not None and self.coverage.token is not None

    def damp(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns x, but lets only a share of its gradient through to the backbone."""
        share = self.backbone_gradient
        if share == 1.0 or not x.requires_grad:
            return x
        return x.detach() if share == 0.0 else _Damped.apply(x, share)

    def cast(self, source: Source) -> Source:
        """Adds to the source all that separation needs and that no decoding step changes."""
        states = self.damp(source.states)
        votes = self.separator.cast(states, source.mask)
        if self.coverage is not None:
            votes = (*votes, *self.coverage.cast(states))
        return replace(source, votes=votes)

    def separate(
        self,
        source: Source,
        read: Reading,
        covered: Float[Tensor, "b t i"] | None = None,
    ) -> Separated:
        """Separates the words of a source that was cast, as seen from decoder states.

        `read` holds a whole target, one position after another. If `covered` is given, it is one
        step of several beams, and `covered` is what each beam has covered before.
        """
        votes, prior = source.votes, None
        if self.coverage is not None:
            *votes, keys, words = votes
            seen, covered = self.coverage.cover(keys, source.mask, read, covered)
            prior = self.coverage.prior(words, seen)
        routed = self.separator(tuple(votes), source.mask, read.guide, prior)
        capsules = routed.capsules[:, :, : sum(self.counts[:2])]  # nothing reads the redundant ones
        if self.scale is not None:
            capsules = capsules * self.scale[:, None]
        parts = routed.assignments.split(self.counts, dim=-1)
        # ONNX has no sum over the capsules of a category that has none.
        sums = [p.sum(-1) if p.shape[-1] else p.new_zeros(p.shape[:-1]) for p in parts]
        shares = torch.stack(sums, dim=-1)
        both = capsules.flatten(2)
        past, future = both.tensor_split([self.counts[0] * capsules.shape[-1]], dim=-1)
        fused = self.fusion(read.states, both)
        return Separated(routed, past, future, shares, fused, covered)


class _Damped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        ctx.share = share
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.share, None


class FeedForwardFusion(nn.Module):
    """Computes FFN(norm([z; capsules])), as in the paper."""

    def __init__(self, config: ModelConfig, widths: Widths, capsules: int) -> None:
        """`capsules` is the width of all capsules that are read."""
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
        """Says whether the fusion still adds nothing."""
        return not (self.transform.outer.weight.any() or self.transform.outer.bias.any())

    def forward(
        self, states: Float[Tensor, "b t d"], capsules: Float[Tensor, "b t w"]
    ) -> Float[Tensor, "b t o"]:
        """Fuses position by position."""
        return self.transform(self.norm(torch.cat([states, capsules], dim=-1)))


class LinearFusion(nn.Module):
    """Computes W capsules, which is nearly free."""

    def __init__(self, widths: Widths, capsules: int) -> None:
        """`capsules` is the width of all capsules that are read."""
        super().__init__()
        self.transform = nn.Linear(capsules, widths.output, bias=False)
        nn.init.zeros_(self.transform.weight)

    @property
    def is_silent(self) -> bool:
        """Says whether the fusion still adds nothing."""
        return not self.transform.weight.any()

    def forward(
        self,
        states: Float[Tensor, "b t d"],  # noqa: ARG002
        capsules: Float[Tensor, "b t w"],
    ) -> Float[Tensor, "b t o"]:
        """Fuses position by position."""
        return self.transform(capsules)


class Heads(nn.Module):
    """Holds what only losses read: maps from capsules to words and states, a translation table."""

    def __init__(self, capsules: tuple[int, int], widths: Widths) -> None:
        """`capsules` are the widths of past and future."""
        super().__init__()
        self.lexicon: TranslationTable | None = None
        past, future = capsules
        state = widths.state
        self.bow_past = nn.Linear(past, widths.output, bias=False)
        self.bow_future = nn.Linear(future, widths.output, bias=False)
        self.bca_past = nn.Linear(state, past, bias=False)
        self.bca_future = nn.Linear(state, future, bias=False)
        for head in (self.bow_past, self.bow_future, self.bca_past, self.bca_future):
            nn.init.xavier_uniform_(head.weight)
