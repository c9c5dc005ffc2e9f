"""Measures how well the capsules predict bags of words.

At each step the head of the past (future) capsules ranks the vocabulary. Its likeliest types are
compared with the bag of target words before (from) this step:

    r = |top 5 |bag| types  &  types of the bag| / |types of the bag|

r is averaged over the steps that have a bag, then over sentences. The baseline ranks the vocabulary
by frequency in the same references, without looking at the sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.corpus.batching import Batch, plan_by_length
from untold.errors import UntoldError
from untold.feedback import task
from untold.storage.model_directory import TrainedModel

__all__ = ["Overlap", "hit_rate", "measure_overlap"]

_DEPTH = 5  # number of top types for each word of a bag
_BATCH_TOKENS = 2048
_BASELINE = "a baseline, to be exceeded: the same by the most frequent words, without a model"
_MEANINGS = {
    "past": "higher is better, up to 1: words already said that PAST predicts",
    "future": "higher is better, up to 1: words still to be said that FUTURE predicts",
    "past_by_frequency": _BASELINE,
    "future_by_frequency": _BASELINE,
}


@dataclass(frozen=True)
class Overlap:
    """Holds the mean hit rates of the two heads and of the baseline."""

    past: float
    future: float
    past_by_frequency: float
    future_by_frequency: float

    def lines(self) -> list[str]:
        """Formats the rates as a table for the terminal."""
        return [f"{name.replace('_', ' '):24}{value:.3f}" for name, value in vars(self).items()]

    def meanings(self) -> list[tuple[str, str]]:
        """Says for each line what it is and which direction is better."""
        return [(name.replace("_", " "), meaning) for name, meaning in _MEANINGS.items()]


@torch.inference_mode()
def measure_overlap(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> Overlap:
    """Measures a model on given pairs. The decoder reads the references; nothing is searched."""
    if trained.model.past_future is None:
        raise UntoldError("the overlap is one of past and future bags, which this model has not")
    codec, eos = trained.codec, trained.tokenizers.target.special_ids.eos
    ids = codec.encode_pairs(pairs)
    counts = torch.zeros(len(trained.tokenizers.target))
    for _, target in ids:  # a bag includes EOS
        counts += torch.bincount(torch.tensor([*target, eos]), minlength=len(counts))
    sums, number = torch.zeros(4), 0
    lengths = [max(len(source), len(target)) + 1 for source, target in ids]
    with task("reading the references", len(ids)) as begun:
        for rows in plan_by_length(lengths, _BATCH_TOKENS):
            batch = codec.batch([ids[row] for row in rows], rows)
            for figures in _sentences(trained, batch, counts):
                sums, number = sums + figures, number + 1
            begun.advance(len(rows))
    return Overlap(*(sums / max(1, number)).tolist())


def hit_rate(scores: Float[Tensor, " v"], bag: Int[Tensor, " n"]) -> float:
    """Returns the share of the bag's types that are among the 5 n highest scores."""
    types = bag.unique()
    top = scores.topk(min(_DEPTH * len(bag), len(scores))).indices
    return float(torch.isin(types, top).float().mean())


def _sentences(
    trained: TrainedModel, batch: Batch, counts: Float[Tensor, " v"]
) -> list[Float[Tensor, " 4"]]:
    """Returns four rates for each sentence: past, future, and both of the baseline."""
    model = trained.model
    assert model.past_future is not None
    separated = model(batch.source, batch.source_mask, batch.prefix).separated
    heads, embedding = model.past_future.heads, model.output_embedding()
    past = heads.bow_past(separated.past) @ embedding.T  # bags have no bias
    future = heads.bow_future(separated.future) @ embedding.T
    past, future, labels = past.cpu(), future.cpu(), batch.labels.cpu()
    found = []
    for row, length in enumerate(batch.target_mask.sum(1).tolist()):
        words = labels[row, :length]
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
