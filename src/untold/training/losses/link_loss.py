"""Link losses: a source word turns from future to past when its translation is said.

The bag losses ask only that the capsules know the words to come. Where two source words become one
target word, either of them is enough for that, and the other is free. Here a translation table
explains every source word x_i, by one of the target words y_t or by nothing, and every target word
by a source word or by nothing:

    rise_t[i] = max(0, past_t+1[i] - past_t[i])          where the routing says that x_i turned
    near_t[i] = exp(-2 |i/I - t/T|)                      word order tends to be kept
    prior_t[i] = 5/9 rise_t[i] + 4/9 near_t[i]           each divided by its sum over t
    a_t[i] ~ .9 prior_t[i] theta(x_i | y_t)              over t; nothing: .1 theta(x_i | nothing)
    b_t[i] ~ .9 prior_t[i] theta(y_t | x_i)              over i, normalised; nothing likewise

The table learns to explain both sides: it minimises minus the log of the sums by which a and b are
normalised. With a alone, a word that stands beside others would be explained by their translations:
a measure word by its noun's. But those are explained by their own words, so a and b disagree. Where
two words become one they disagree as well, so each decides half of whether there is a link:

    doubt[i] = (a_nothing[i] + .1) / 2
    nothing[i] = (a_nothing[i] + doubt[i] / (doubt[i] + sum_t a_t[i] b_t[i])) / 2
    link_t[i] ~ a_t[i]                                   sums to 1 - nothing[i] over t

The routing learns the links: at step t the words with links before t are past, those with links
from t on are future, and those that nothing translates are redundant. Each side is held fixed while
the other learns, as in expectation maximisation: the table tells words apart, the routing tells
repetitions of one word apart. After a counterfactual prefix (counterfactual.py) the links say which
words are not translated yet.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from untold.categories import PAST
from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.seq2seq import Seq2Seq
from untold.models.translation_table import TranslationTable
from untold.training.losses.counterfactual import SpanDeletion
from untold.training.losses.loss import Loss, LossContext

__all__ = [
    "CounterfactualLinkLoss",
    "LinkLoss",
    "Links",
    "TranslationTableLoss",
    "find_links",
    "links_loss",
]

_RISE, _NEAR = 5 / 9, 4 / 9  # the parts of routing and of word order in the prior of a link
_TURNING = 0.1  # rises that sum to less are not scaled up: the word has hardly turned
_NEARNESS = 2.0  # a link to the other end of the sentence is exp(-2) times as likely
_NOTHING = 0.1  # the prior of nothing
_LEAST = 1e-6  # keeps logarithms and their gradients finite


@dataclass(frozen=True)
class Links:
    """The probabilities that each source word translates to each target word; they sum to one."""

    words: Float[Tensor, "b s i"]  # of the target words: all labels but the last one
    nothing: Float[Tensor, "b i"]  # of no target word
    is_word: Bool[Tensor, "b i"]  # False at the end of a source and at padding

    def cut(self, cut: SpanDeletion) -> "Links":
        """Leaves out the target words of the deleted spans."""
        s, i = self.words.shape[1:]
        origin = cut.origin[:, :-1].clamp(max=s - 1)[..., None].expand(-1, -1, i)
        return Links(
            self.words[cut.rows].gather(1, origin), self.nothing[cut.rows], self.is_word[cut.rows]
        )

    def categories(self) -> Float[Tensor, "b t i 3"]:
        """Computes past, future and redundant before each target word and before EOS."""
        past = torch.cat([torch.zeros_like(self.nothing[:, None]), self.words.cumsum(1)], dim=1)
        redundant = self.nothing[:, None].expand_as(past)
        return torch.stack([past, (1 - past - redundant).clamp(min=0), redundant], dim=-1)


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

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:
        """Tells whether there is a table and any sentence loses a span."""
        return super().applies(model, config) and config.counterfactual > 0

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the cross entropy at the positions behind the deleted spans."""
        if context.counterfactual is None:
            return None
        cut, separated = context.counterfactual
        links, _ = context.once(_batch_links)
        return links_loss(links.cut(cut), separated.shares, cut.after)


def find_links(
    lexicon: TranslationTable, shares: Float[Tensor, "b t i g"], batch: Batch
) -> tuple[Links, Float[Tensor, ""]]:
    """Finds the links of a batch; returns them and the loss of the table, summed over words."""
    of_source, of_target = lexicon(batch.source, batch.labels[:, :-1])
    is_word, said = batch.source_words, batch.target_mask[:, 1:]
    prior = _prior(shares.detach(), said, is_word)
    chosen, unexplained = _explain(of_source, prior, is_word)
    by_source, unexplained_too = _explain(of_target.mT, prior.mT, said)
    by_word, by_nothing = chosen[:, :-1], chosen[:, -1]
    agreed = (by_word * by_source[:, :-1].mT).sum(1)
    doubt = (by_nothing + _NOTHING) / 2
    nothing = (by_nothing + doubt / (doubt + agreed)) / 2
    words = _normalise(by_word) * (1 - nothing)[:, None]
    return Links(words, nothing, is_word), unexplained + unexplained_too


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
    return find_links(lexicon, context.separated.shares, context.batch)


def _prior(
    shares: Float[Tensor, "b t i g"], said: Bool[Tensor, "b s"], words: Bool[Tensor, "b i"]
) -> Float[Tensor, "b s i"]:
    """Computes the prior of the links; it is zero unless both are words."""
    past, pairs = shares[..., PAST], said[..., None] & words[:, None]
    rise = (past[:, 1:] - past[:, :-1]).clamp(min=0) * pairs
    distance = (_places(said)[..., None] - _places(words)[:, None]).abs()
    near = (-_NEARNESS * distance).exp() * pairs
    return _RISE * _normalise(rise, least=_TURNING) + _NEAR * _normalise(near)


def _explain(
    log_theta: Float[Tensor, "b n1 m"], prior: Float[Tensor, "b n m"], counted: Bool[Tensor, "b m"]
) -> tuple[Float[Tensor, "b n1 m"], Float[Tensor, ""]]:
    """Computes the probability that each of n words, or nothing, explains each of m words.

    It also returns -log of the likelihood of the m words, summed over those that are counted.
    """
    prior = pad((1 - _NOTHING) * _normalise(prior), (0, 0, 0, 1), value=_NOTHING)
    joint = prior * log_theta.exp()
    explained = joint.sum(1).clamp(min=torch.finfo(joint.dtype).tiny)
    return (joint / explained[:, None]).detach(), -(explained.log() * counted).sum()


def _normalise(values: Float[Tensor, "b n m"], least: float = _LEAST) -> Float[Tensor, "b n m"]:
    """Normalises over dim 1, with the denominator clamped."""
    return values / values.sum(1, keepdim=True).clamp(min=least)


def _places(mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Computes the relative position of each real word, between 0 (start) and 1 (end)."""
    places = torch.arange(mask.shape[1], device=mask.device) + 0.5
    return places / mask.sum(1, keepdim=True).clamp(min=1)
