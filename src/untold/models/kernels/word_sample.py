"""Words of a vocabulary that stand for all of it: some for certain, others drawn at random.

    sum over the vocabulary of f(x)  ~  sum over the certain words of f(x)
                                        + (others / drawn) * sum over the drawn ones of f(x)

The mean of the estimate is the sum. The words of a batch are certain: most of a normaliser is in
them, since a word is seldom in a batch without its translation. So few others have to be drawn.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["WordSample", "draw_words"]


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
