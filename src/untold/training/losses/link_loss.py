"""A source word turns from future to past when its translation is said: a lexicon knows when.

Bags ask only that the capsules know the words to come. Where two source words become one, either of
them is enough for that, and the other may drift anywhere. Here every source word x_i is explained,
by one of the target words y_t or by nothing, and every target word by a source word or by nothing:

    rise_t[i] = max(0, past_t+1[i] - past_t[i])          where the routing says that x_i turned
    near_t[i] = exp(-2 |i/I - t/T|)                      that word order tends to be kept
    prior_t[i] = 5/9 rise_t[i] + 4/9 near_t[i]           each in shares of its sum over t
    a_t[i] ~ .9 prior_t[i] theta(x_i | y_t)              over t; of nothing .1 theta(x_i | nothing)
    b_t[i] ~ .9 prior_t[i] theta(y_t | x_i)              over i, in shares; of nothing likewise

The lexicon learns to explain both sides: it minimises minus the log of the sums that make a and b
one in all. By a alone, a word that stands beside others would be explained by their translations:
a measure word by its noun's. But those are explained by their own words, so a and b disagree. Where
two words become one they disagree as well, so each has half a say in whether there is a link:

    doubt[i] = (a_nothing[i] + .1) / 2
    nothing[i] = (a_nothing[i] + doubt[i] / (doubt[i] + sum_t a_t[i] b_t[i])) / 2
    link_t[i] ~ a_t[i]                                   1 - nothing[i] in all

The routing learns the links: at step t the words with links before t are past, those with links
from t on are future, and those that nothing translates are redundant. Each is held fixed while the
other learns, as in expectation maximisation: the lexicon tells words apart, the routing repetitions
of one word. After a counterfactual prefix (counterfactual.py) the links say which words are untold.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from untold.categories import PAST
from untold.corpus.batching import Batch
from untold.corpus.vocabulary import EOS
from untold.models.translation_table import TranslationTable
from untold.training.losses.counterfactual import Shortened

__all__ = ["Links", "find_links", "links_loss"]

_RISE, _NEAR = 5 / 9, 4 / 9  # what the prior of a link has of the routing and of word order
_TURNING = 0.1  # a word that rises by less in all has not made up its mind
_NEARNESS = 2.0  # how much less likely a link is at the other end of the sentence: exp(-2)
_NOTHING = 0.1  # the prior of nothing
_LEAST = 1e-6  # keeps logarithms and their gradients finite


@dataclass(frozen=True)
class Links:
    """Probabilities of what each source word is the translation of; one in all for each word i."""

    words: Float[Tensor, "b s i"]  # of the target words, which are all labels but the last one
    nothing: Float[Tensor, "b i"]
    is_word: Bool[Tensor, "b i"]  # the end of a source is none

    def cut(self, cut: Shortened) -> "Links":
        """After a span was deleted from the target: the links of its words are left out."""
        s, i = self.words.shape[1:]
        origin = cut.origin[:, :-1].clamp(max=s - 1)[..., None].expand(-1, -1, i)
        return Links(
            self.words[cut.rows].gather(1, origin), self.nothing[cut.rows], self.is_word[cut.rows]
        )

    def categories(self) -> Float[Tensor, "b t i 3"]:
        """Past, future and redundant before each target word and before the end."""
        past = torch.cat([torch.zeros_like(self.nothing[:, None]), self.words.cumsum(1)], dim=1)
        redundant = self.nothing[:, None].expand_as(past)
        return torch.stack([past, (1 - past - redundant).clamp(min=0), redundant], dim=-1)


def find_links(
    lexicon: TranslationTable, shares: Float[Tensor, "b t i g"], batch: Batch
) -> tuple[Links, Float[Tensor, ""]]:
    """The links of a batch, and what the lexicon is to minimise, summed over words."""
    of_source, of_target = lexicon(batch.source, batch.labels[:, :-1])
    is_word = batch.source_mask & (batch.source != EOS)
    said = batch.target_mask[:, 1:]
    prior = _prior(shares.detach(), said, is_word)
    chosen, unexplained = _explain(of_source, prior, is_word)
    by_source, unexplained_too = _explain(of_target.mT, prior.mT, said)
    by_word, by_nothing = chosen[:, :-1], chosen[:, -1]
    agreed = (by_word * by_source[:, :-1].mT).sum(1)
    doubt = (by_nothing + _NOTHING) / 2
    nothing = (by_nothing + doubt / (doubt + agreed)) / 2
    words = _in_shares(by_word) * (1 - nothing)[:, None]
    return Links(words, nothing, is_word), unexplained + unexplained_too


def links_loss(
    links: Links, shares: Float[Tensor, "b t i g"], steps: Bool[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """What the routing is to minimise: summed over source words, the mean over `steps` of each."""
    wrong = -(links.categories() * shares.clamp(min=_LEAST).log()).sum(-1)
    weights = steps / steps.sum(1, keepdim=True).clamp(min=1)
    return ((wrong * links.is_word[:, None]).sum(-1) * weights).sum()


def _prior(
    shares: Float[Tensor, "b t i g"], said: Bool[Tensor, "b s"], words: Bool[Tensor, "b i"]
) -> Float[Tensor, "b s i"]:
    """Of the links, before the lexicon is asked; zero but for words on both sides."""
    past, pairs = shares[..., PAST], said[..., None] & words[:, None]
    rise = (past[:, 1:] - past[:, :-1]).clamp(min=0) * pairs
    distance = (_places(said)[..., None] - _places(words)[:, None]).abs()
    near = (-_NEARNESS * distance).exp() * pairs
    return _RISE * _in_shares(rise, least=_TURNING) + _NEAR * _in_shares(near)


def _explain(
    log_theta: Float[Tensor, "b n1 m"], prior: Float[Tensor, "b n m"], counted: Bool[Tensor, "b m"]
) -> tuple[Float[Tensor, "b n1 m"], Float[Tensor, ""]]:
    """How likely each of n words, or nothing, is what explains each of m; and minus the log of how
    well they are explained, summed over those that are counted."""
    of_words = (1 - _NOTHING) * _in_shares(prior)
    prior = pad(of_words, (0, 0, 0, 1), value=_NOTHING)
    joint = prior * log_theta.exp()
    explained = joint.sum(1).clamp(min=torch.finfo(joint.dtype).tiny)
    return (joint / explained[:, None]).detach(), -(explained.log() * counted).sum()


def _in_shares(values: Float[Tensor, "b n m"], least: float = _LEAST) -> Float[Tensor, "b n m"]:
    """Of what the m-th has in all, or of the least that this counts as."""
    return values / values.sum(1, keepdim=True).clamp(min=least)


def _places(mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Where each of the first, real ones stands between the start (0) and the end (1)."""
    places = torch.arange(mask.shape[1], device=mask.device) + 0.5
    return places / mask.sum(1, keepdim=True).clamp(min=1)
