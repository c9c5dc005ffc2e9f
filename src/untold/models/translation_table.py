"""A translation table without context, and the links between the words of a pair that it finds.

    theta(x | y) = softmax over x of <U_x, V_y>          theta(y | x) = softmax over y of the same

"Nothing" is one more word on either side. The table knows no context, so it can explain a word only
by its own translation: that makes it a teacher of the routing (training/losses/link_loss.py).
Translating does not need it.

Every source word x_i is explained by one of the target words y_t or by nothing, and every target
word by a source word or by nothing:

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
    alone[i] = doubt[i] / (doubt[i] + sum_t a_t[i] b_t[i])
    nothing[i] = (a_nothing[i] + alone[i]) / 2
    link_t[i] ~ a_t[i]                                   sums to 1 - nothing[i] over t
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from untold.categories import PAST
from untold.corpus.batching import Batch

__all__ = ["Links", "TranslationTable", "find_links"]

_SCORES_AT_ONCE = 16_000_000  # bounds the memory of large vocabularies
_RISE, _NEAR = 5 / 9, 4 / 9  # the parts of routing and of word order in the prior of a link
_TURNING = 0.1  # rises that sum to less are not scaled up: the word has hardly turned
_NEARNESS = 2.0  # a link to the other end of the sentence is exp(-2) times as likely
_NOTHING = 0.1  # the prior of nothing
_LEAST = 1e-6  # keeps divisors above zero


@dataclass(frozen=True)
class Links:
    """The probabilities that each source word translates to each target word; they sum to one."""

    words: Float[Tensor, "b s i"]  # of the target words: all labels but the last one
    nothing: Float[Tensor, "b i"]  # of no target word
    is_word: Bool[Tensor, "b i"]  # False at the end of a source and at padding
    origins: Float[Tensor, "b s i1"]  # b_t[i]: what explains each target word; nothing is last
    alone: Float[Tensor, "b i"]  # how far no target word is explained by it

    def keep(self, rows: Int[Tensor, " r"], places: Int[Tensor, "r s"]) -> "Links":
        """Keeps some sentences, and of each the target words at some places."""
        s, i = self.words.shape[1:]
        places = places.clamp(max=s - 1)[..., None]
        return Links(
            self.words[rows].gather(1, places.expand(-1, -1, i)),
            self.nothing[rows],
            self.is_word[rows],
            self.origins[rows].gather(1, places.expand(-1, -1, i + 1)),
            self.alone[rows],
        )

    def categories(self) -> Float[Tensor, "b t i 3"]:
        """Computes past, future and redundant before each target word and before EOS."""
        past = torch.cat([torch.zeros_like(self.nothing[:, None]), self.words.cumsum(1)], dim=1)
        redundant = self.nothing[:, None].expand_as(past)
        return torch.stack([past, (1 - past - redundant).clamp(min=0), redundant], dim=-1)


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
    alone = doubt / (doubt + agreed)
    nothing = (by_nothing + alone) / 2
    words = _normalise(by_word) * (1 - nothing)[:, None]
    return Links(words, nothing, is_word, by_source.mT, alone), unexplained + unexplained_too


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
