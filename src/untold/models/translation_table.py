"""A translation table without context, and the links between the words of a pair that it finds.

    theta(x | y) = softmax over x of <U_x, V_y>          theta(y | x) = softmax over y of the same

"Nothing" is one more word on either side. The table knows no context, so it can explain a word only
by its own translation: that makes it a teacher of the routing (training/losses/links.py).
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

Words of a vocabulary that stand for all of it: some for certain, others drawn at random.

    sum over the vocabulary of f(x)  ~  sum over the certain words of f(x)
                                        + (others / drawn) * sum over the drawn ones of f(x)

The mean of the estimate is the sum. The words of a batch are certain: most of a normaliser is in
them, since a word is seldom in a batch without its translation. So few others have to be drawn.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from untold.corpus.batching import Batch
from untold.models.signals import PAST


@dataclass(frozen=True)
class WordSample:
    """Holds words, the certain ones first and in order, and the log of what each counts."""

    ids: Int[Tensor, " n"]
    log_weights: Float[Tensor, " n"]
    certain: int  # how many of the words are certain

    def places(self, words: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Returns where among `ids` the words stand; the place of an uncertain word is any."""
        found = torch.searchsorted(self.ids[: self.certain], words.contiguous())
        return found.clamp_(max=self.certain - 1)


def draw_words(words: Int[Tensor, "*shape"], size: int, share: float) -> WordSample:
    """Takes the words for certain and draws a share of the others in a vocabulary of some size.

    A share of one takes the whole vocabulary and draws no random number.
    """
    everything = torch.arange(size, device=words.device)
    if share == 1.0:
        return WordSample(everything, torch.zeros(size, device=words.device), size)
    is_certain = torch.zeros(size, dtype=torch.bool, device=words.device)
    is_certain[words.flatten()] = True
    certain, others = everything[is_certain], everything[~is_certain]
    count = math.ceil(share * len(others))
    drawn = others[torch.randperm(len(others), device=words.device)[:count]]
    log_weights = torch.zeros(len(certain) + count, device=words.device)
    if count:
        log_weights[len(certain) :] = math.log(len(others) / count)
    return WordSample(torch.cat([certain, drawn]), log_weights, len(certain))


# Scores that exist at one time. Measured: more leave the processor's cache, and are slower.
_SCORES_AT_ONCE = 1_000_000
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
        self, source: Int[Tensor, "b i"], target: Int[Tensor, "b t"], share: float = 1.0
    ) -> tuple[Float[Tensor, "b t1 i"], Float[Tensor, "b t i1"]]:
        """Returns log theta(x | y) and log theta(y | x) of the words of each pair.

        The last row of the first stands for y = nothing, the last column of the second for
        x = nothing. With a `share` below one the normalisers are estimated from the words of the
        batch and this share of all others.
        """
        sources, own = _pick(self.source, source, share)
        targets, theirs = _pick(self.target, target, share)
        pairs = theirs.vectors @ own.vectors.mT
        given_target = log_totals(targets.known, sources.vectors, sources.log_weights)
        given_source = log_totals(sources.known, targets.vectors, targets.log_weights)
        of_source = pairs[..., :-1] - given_target[theirs.places][..., None]
        of_target = pairs[:, :-1] - given_source[own.places][:, None]
        return of_source, of_target


def find_links(
    lexicon: TranslationTable,
    shares: Float[Tensor, "b t i g"],
    batch: Batch,
    vocabulary_share: float = 1.0,
) -> tuple[Links, Float[Tensor, ""]]:
    """Finds the links of a batch; returns them and the loss of the table, summed over words.

    A `vocabulary_share` below one makes it faster and inexact: see TranslationTable.
    """
    of_source, of_target = lexicon(batch.source, batch.labels[:, :-1], vocabulary_share)
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


@dataclass(frozen=True)
class _Sampled:
    """Holds the vectors of a sample of words, of which some are certain."""

    vectors: Float[Tensor, "n w"]
    log_weights: Float[Tensor, " n"]
    certain: int

    @property
    def known(self) -> Float[Tensor, "c w"]:
        """Returns the vectors of the words that are certain."""
        return self.vectors[: self.certain]


@dataclass(frozen=True)
class _Spoken:
    """Holds the words of one side of a batch, each followed by nothing, and their vectors."""

    places: Int[Tensor, "b n"]
    vectors: Float[Tensor, "b n w"]


def _pick(
    table: Float[Tensor, "v w"], words: Int[Tensor, "b n"], share: float
) -> tuple[_Sampled, _Spoken]:
    """Looks a side of a batch up in its table, together with a sample of the other words."""
    words = pad(words, (0, 1), value=len(table) - 1)
    sample = draw_words(words, len(table), share)
    vectors, places = embedding(sample.ids, table), sample.places(words)
    weights = sample.log_weights.to(table.dtype)
    return _Sampled(vectors, weights, sample.certain), _Spoken(places, embedding(places, vectors))


def plain_log_totals(
    given: Float[Tensor, "u w"], others: Float[Tensor, "o w"], log_weights: Float[Tensor, " o"]
) -> Float[Tensor, " u"]:
    """Computes log_totals from the whole matrix of scores."""
    return (given @ others.T + log_weights).logsumexp(-1)


def log_totals(
    given: Float[Tensor, "u w"], others: Float[Tensor, "o w"], log_weights: Float[Tensor, " o"]
) -> Float[Tensor, " u"]:
    """Returns the log of each given word's normaliser: a weighted sum over the other side.

    The scores are computed in chunks, and again for the gradients.
    """
    return _LogTotals.apply(given, others, log_weights)


class _LogTotals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, others: Tensor, log_weights: Tensor) -> Tensor:
        size = max(1, _SCORES_AT_ONCE // len(others))
        parts = [
            torch.addmm(log_weights, rows, others.T).logsumexp(-1) for rows in given.split(size)
        ]
        totals = torch.cat(parts)
        ctx.save_for_backward(given, others, log_weights, totals)
        return totals

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        given, others, log_weights, totals = ctx.saved_tensors
        grad_given, grad_others = torch.empty_like(given), torch.zeros_like(others)
        size = max(1, _SCORES_AT_ONCE // len(others))
        for first in range(0, len(given), size):
            part = slice(first, first + size)
            shares = torch.addmm(log_weights, given[part], others.T)
            shares.sub_(totals[part, None]).exp_().mul_(grads[0][part, None])
            torch.mm(shares, others, out=grad_given[part])
            grad_others.addmm_(shares.T, given[part])
        return grad_given, grad_others, None


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
