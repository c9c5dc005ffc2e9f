"""Bags of words: the past capsules know what was said, the future ones what is still to be said.

    -log p(bag) = sum over its words y of  log Z_t - E_y . u_t,   u_t = W Omega_t

State z_t has read y_<t and predicts y_t. Summed over a bag, the embeddings become one vector S_t, a
running sum over the sentence, and the loss N_t log Z_t - u_t . S_t: there is no (t, t) term.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.training.losses.fused_softmax import weighted_log_partition

__all__ = ["Bags", "Words", "bag_loss", "sentence_bags"]


@dataclass(frozen=True)
class Bags:
    """Of every position: the number of words in its bag and the sum of their embeddings."""

    counts: Float[Tensor, "b t"]
    sums: Float[Tensor, "b t d"]


@dataclass(frozen=True)
class Words:
    """What was read, and of what: `labels` are y_1 .. y_T EOS, as the decoder was given them.

    `whole` is the sentence that they are of; it has words that `labels` lack, if some were deleted.
    """

    labels: Int[Tensor, "b t"]
    mask: Bool[Tensor, "b t"]
    whole: Int[Tensor, "b s"]
    whole_mask: Bool[Tensor, "b s"]


def sentence_bags(words: Words, embedding: Float[Tensor, "v d"], window: str) -> tuple[Bags, Bags]:
    """Past and future bag of every position.

    causal: y_<t and the rest. paper: y_<=t and y_>=t. strict: y_<t and y_>t.
    """
    real = words.mask.to(embedding.dtype)
    here = Bags(real, _rows(words.labels, words.mask, embedding))
    through = Bags(here.counts.cumsum(1), here.sums.cumsum(1))
    before = _minus(through, here)
    whole = _rows(words.whole, words.whole_mask, embedding)
    everything = Bags(
        words.whole_mask.sum(1, keepdim=True).to(embedding.dtype).expand_as(real),
        whole.sum(1, keepdim=True).expand_as(here.sums),
    )
    past = through if window == "paper" else before
    future = _minus(everything, through if window == "strict" else before)
    return past, future


def bag_loss(
    capsules: Float[Tensor, "n w"],
    head: nn.Linear,
    embedding: Float[Tensor, "v d"],
    bag: tuple[Float[Tensor, " n"], Float[Tensor, "n d"]],
    weights: Float[Tensor, " n"],
) -> Float[Tensor, ""]:
    """Sum over n positions of weight times -log p(bag), with p = softmax(E W capsules).

    `bag`: counts and sums of the positions, as Bags has them.
    """
    counts, sums = bag
    mapped = head(capsules)
    if capsules.shape[1] < embedding.shape[1]:  # (E W) Omega has fewer products than E (W Omega)
        log_z = weighted_log_partition(capsules, embedding @ head.weight, counts * weights)
    else:
        log_z = weighted_log_partition(mapped, embedding, counts * weights)
    return log_z - torch.linalg.vecdot(mapped, sums) @ weights


def _rows(ids: Tensor, mask: Tensor, embedding: Tensor) -> Float[Tensor, "b t d"]:
    return nn.functional.embedding(ids, embedding) * mask[..., None].to(embedding.dtype)


def _minus(one: Bags, other: Bags) -> Bags:
    return Bags(one.counts - other.counts, one.sums - other.sums)
