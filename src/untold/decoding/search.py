"""The one way in: ids of sources to hypotheses."""

import torch

from untold.config import DecodeConfig
from untold.decoding.beam_search import beam_search
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.sampling import sample
from untold.decoding.searchable import Searchable
from untold.decoding.sentences import Sentences
from untold.decoding.trace import NOTHING, Show

__all__ = ["search"]


@torch.inference_mode()
def search(
    model: Searchable, sentences: Sentences, config: DecodeConfig, show: Show = NOTHING
) -> list[list[Hypothesis]]:
    """For each sentence its `nbest` translations, best first; fewer if there are no more.

    The model is used as it is: put it in evaluation mode first.
    """
    if not len(sentences):
        return []
    decode = sample if config.sample else beam_search
    return decode(model, sentences, config, show)
