"""A source word turns from future to past when its translation is said: a lexicon knows when.

Bags ask only that the capsules know the words to come. Where two source words become one, either of
them is enough for that, and the other may drift anywhere. Here every source word x_i is explained,
by one of the target words y_t or by nothing:

    rise_t[i] = max(0, past_t+1[i] - past_t[i])          where the routing says that x_i turned
    near_t[i] ~ exp(-4 |i/I - t/T|)                      that word order tends to be kept
    prior_t[i] = .5 rise_t[i] + .4 near_t[i];  of nothing: .5 redundant_T[i] + .1
    link_t[i] ~ prior_t[i] theta(x_i | y_t)              one in all, with that of nothing

The lexicon learns to explain the source: -sum_i log sum_t prior_t[i] theta(x_i | y_t). The routing
learns the links: at step t the words with links before t are past, those with links from t on are
future, and those that nothing translates are redundant. Each is held fixed while the other learns,
as in expectation maximisation: the lexicon tells words apart, the routing repetitions of one word.
After a counterfactual prefix (counterfactual.py) the links say which source words are untold.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from untold.corpus.batches import Batch
from untold.corpus.vocabulary import EOS
from untold.models.lexicon import Lexicon
from untold.training.counterfactual import Shortened
from untold.training.ends import at_the_end

__all__ = ["Links", "find_links", "links_loss"]

_NEAR, _NOTHING = 0.4, 0.1  # what the prior of a link has beside the routing's half
_NEARNESS = 4.0  # how much less likely a link is at the other end of the sentence: exp(-4)
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
    lexicon: Lexicon, shares: Float[Tensor, "b t i g"], batch: Batch
) -> tuple[Links, Float[Tensor, ""]]:
    """The links of a batch, and what the lexicon is to minimise, summed over source words."""
    given_word, given_nothing = lexicon(batch.source, batch.labels[:, :-1])
    is_word = batch.source_mask & (batch.source != EOS)
    prior = _prior(shares.detach(), batch.target_mask, is_word)
    by_word, by_nothing = prior.words * given_word.exp(), prior.nothing * given_nothing.exp()
    explained = (by_word.sum(1) + by_nothing).clamp(min=torch.finfo(by_word.dtype).tiny)
    unexplained = -(explained.log() * is_word).sum()
    words, nothing = by_word / explained[:, None], by_nothing / explained
    return Links(words.detach(), nothing.detach(), is_word), unexplained


def links_loss(
    links: Links, shares: Float[Tensor, "b t i g"], steps: Bool[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """What the routing is to minimise: summed over source words, the mean over `steps` of each."""
    wrong = -(links.categories() * shares.clamp(min=_LEAST).log()).sum(-1)
    weights = steps / steps.sum(1, keepdim=True).clamp(min=1)
    return ((wrong * links.is_word[:, None]).sum(-1) * weights).sum()


def _prior(
    shares: Float[Tensor, "b t i g"], steps: Bool[Tensor, "b t"], words: Bool[Tensor, "b i"]
) -> Links:
    """What the routing says of the links, and for one half what can be said without it."""
    past, said = shares[..., 0], steps[:, 1:, None].to(shares.dtype)
    rise = (past[:, 1:] - past[:, :-1]).clamp(min=0) * said
    redundant = at_the_end(shares, steps)[..., 2]
    mass = (rise.sum(1) + redundant).clamp(min=_LEAST)
    distance = (_places(steps[:, 1:])[..., None] - _places(words)[:, None]).abs()
    near = (-_NEARNESS * distance).exp() * said
    near = near / near.sum(1, keepdim=True).clamp(min=_LEAST)
    of_word = 0.5 * rise / mass[:, None] + _NEAR * near
    return Links(of_word, 0.5 * redundant / mass + _NOTHING, words)


def _places(mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Where each of the first, real ones stands between the start (0) and the end (1)."""
    places = torch.arange(mask.shape[1], device=mask.device) + 0.5
    return places / mask.sum(1, keepdim=True).clamp(min=1)
