"""Link losses: a source word turns from future to past when its translation is said.

The bag losses ask only that the capsules know the words to come. Where two source words become one
target word, either of them is enough for that, and the other is free. Here a translation table
explains every word of both sides (models/translation_table.py), and it learns to explain them well.

The routing learns the links: at step t the words with links before t are past, those with links
from t on are future, and those that nothing translates are redundant. Each side is held fixed while
the other learns, as in expectation maximisation: the table tells words apart, the routing tells
repetitions of one word apart. After a counterfactual prefix (counterfactual.py) the links say which
words are not translated yet.

The ends loss: before the first target word nothing is past, after the last nothing is future.

    sum over source words i of  -log(1 - past_1[i]) - log(1 - future_T[i])

Both hold without any alignment. Words without a translation can then only be redundant.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.config import TrainConfig
from untold.models.layers import full_precision, widen
from untold.models.seq2seq import Seq2Seq
from untold.models.signals import FUTURE, PAST
from untold.models.translation_table import Links, find_links
from untold.training.losses.loss import Loss, LossContext, SeparationLoss

_LEAST = 1e-6  # keeps logarithms and their gradients finite


class TranslationTableLoss(Loss):
    """Trains the translation table to explain the words of both sides."""

    name = "lexicon"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.lexicon_weight."""
        return config.lexicon_weight

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Tells whether the separator has a translation table."""
        return model.past_future is not None and model.past_future.heads.lexicon is not None

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes how badly the words are explained."""
        return context.once(_batch_links)[1]


class LinkLoss(TranslationTableLoss):
    """Trains the routing to follow the links of the translation table."""

    name = "links"

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the cross entropy between links and assignments."""
        links, _ = context.once(_batch_links)
        return links_loss(links, context.separated.shares, context.batch.target_mask)


class CounterfactualLinkLoss(TranslationTableLoss):
    """Trains the routing to follow the links after prefixes without a span."""

    name = "cut_links"
    counterfactual = True

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:
        """Tells whether there is a table and any sentence loses a span."""
        return super().applies(model, config) and config.counterfactual > 0

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the cross entropy at the positions behind the deleted spans."""
        if context.counterfactual is None:
            return None
        cut, separated = context.counterfactual
        links, _ = context.once(_batch_links)
        return links_loss(
            links.keep(cut.rows, cut.origin[:, :-1]),
            separated.shares,
            cut.after,
        )


def links_loss(
    links: Links, shares: Float[Tensor, "b t i g"], steps: Bool[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """Averages the cross entropy over `steps` and sums it over the source words."""
    wrong = -(links.categories() * shares.clamp(min=_LEAST).log()).sum(-1)
    weights = steps / steps.sum(1, keepdim=True).clamp(min=1)
    return ((wrong * links.is_word[:, None]).sum(-1) * weights).sum()


def _batch_links(context: LossContext) -> tuple[Links, Float[Tensor, ""]]:
    lexicon = context.past_future.heads.lexicon
    assert lexicon is not None
    shares, share = widen(context.separated.shares), context.config.vocabulary_share
    with full_precision(shares):
        return find_links(lexicon, shares, context.batch, share)


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
