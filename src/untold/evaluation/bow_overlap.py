"""Overlap: do the capsules know the words? At each step the likeliest types of the past (future)
head are compared with the bag of words that was said (is to be said).

    r = |top 5 |bag| types  &  types of the bag| / |types of the bag|

The mean over the steps with a bag, then over sentences. Beside it the same with the most frequent
types of the very references that are measured, whatever the sentence: knowing nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.corpus.batching import Batch, collate, plan_by_length
from untold.corpus.vocabulary import EOS
from untold.errors import UntoldError
from untold.storage.model_directory import TrainedModel

__all__ = ["Overlap", "hit_rate", "measure_overlap"]

_DEPTH = 5  # types looked at for each word of a bag
_BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Overlap:
    """Mean hit rates of the two heads and of the most frequent types."""

    past: float
    future: float
    past_by_frequency: float
    future_by_frequency: float


@torch.inference_mode()
def measure_overlap(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> Overlap:
    """On given pairs, with every reference read to its end."""
    if trained.model.past_future is None:
        raise UntoldError("the overlap is one of past and future bags, which this model has not")
    if trained.config.data.lowercase:
        pairs = [(source.lower(), target.lower()) for source, target in pairs]
    sources = trained.tokenizers.source.encode([source for source, _ in pairs])
    targets = trained.tokenizers.target.encode([target for _, target in pairs])
    counts = torch.zeros(len(trained.tokenizers.target))
    for target in targets:  # each of which ends in EOS, as its bags do
        counts += torch.bincount(torch.tensor([*target, EOS]), minlength=len(counts))
    sums, number = torch.zeros(4), 0
    lengths = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
    for rows in plan_by_length(lengths, _BATCH_TOKENS):
        batch = collate([(sources[row], targets[row]) for row in rows], rows)
        for figures in _sentences(trained, batch, counts):
            sums, number = sums + figures, number + 1
    return Overlap(*(sums / max(1, number)).tolist())


def hit_rate(scores: Float[Tensor, " v"], bag: Int[Tensor, " n"]) -> float:
    """The share of a bag's types that are among the 5 n highest scores."""
    types = bag.unique()
    top = scores.topk(min(_DEPTH * len(bag), len(scores))).indices
    return float(torch.isin(types, top).float().mean())


def _sentences(
    trained: TrainedModel, batch: Batch, counts: Float[Tensor, " v"]
) -> list[Float[Tensor, " 4"]]:
    """Past, future, and both by frequency, for each sentence of a batch."""
    model = trained.model
    assert model.past_future is not None
    separated = model(batch.source, batch.source_mask, batch.prefix).separated
    heads = model.past_future.heads
    past = model.logits(heads.bow_past(separated.past))
    future = model.logits(heads.bow_future(separated.future))
    found = []
    for row, length in enumerate(batch.target_mask.sum(1).tolist()):
        words = batch.labels[row, :length]
        rates: list[list[float]] = [[], [], [], []]
        for step in range(length):
            if step:
                rates[0].append(hit_rate(past[row, step], words[:step]))
                rates[2].append(hit_rate(counts, words[:step]))
            rates[1].append(hit_rate(future[row, step], words[step:]))
            rates[3].append(hit_rate(counts, words[step:]))
        if length > 1:
            found.append(torch.tensor([sum(each) / len(each) for each in rates]))
    return found
