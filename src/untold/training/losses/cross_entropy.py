"""-log p(y|x) of a batch: of a model that generates alone, and of one that also copies.

With copying p is a mixture, and label smoothing is that of what is generated alone: nothing is
gained by copying what was never there.

    (1 - smoothing) * -log p(y)  +  smoothing * -(mean over the vocabulary of log p_generated)
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.corpus.batching import Batch
from untold.models.copy_mechanism import TINY
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.training.losses.fused_softmax import label_smoothed_cross_entropy, partition

__all__ = ["Labels", "copy_loss", "plain_copy_loss", "translation_loss"]


@dataclass(frozen=True)
class Labels:
    """The truth about n positions, and how much of it is spread over the vocabulary."""

    ids: Int[Tensor, " n"]
    smoothing: float


def translation_loss(
    model: Seq2Seq, outputs: Outputs, batch: Batch, smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed over the target tokens, label-smoothed, and the plain one beside it."""
    real, labels = batch.target_mask, batch.labels[batch.target_mask]
    states, embedding = model.backbone.output_layer().augmented(outputs.holistic[real])
    if outputs.copied is None:
        return label_smoothed_cross_entropy(states, embedding, labels, smoothing)
    copied = outputs.copied.probability(batch.labels)[real]
    mixture = torch.stack([outputs.copied.generating[real], copied], dim=1)
    return copy_loss(states, embedding, mixture, Labels(labels, smoothing))


def plain_copy_loss(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    mixture: Float[Tensor, "n 2"],
    labels: Labels,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The oracle of copy_loss: whole logits, probabilities as they are written."""
    log_p = torch.log_softmax(states @ embedding.T, dim=-1)
    generated = log_p.gather(1, labels.ids[:, None])[:, 0].exp()
    nll = -(mixture[:, 0].exp() * generated + mixture[:, 1]).log().sum()
    uniform = -log_p.mean(-1).sum()
    return (1 - labels.smoothing) * nll + labels.smoothing * uniform, nll.detach()


def copy_loss(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    mixture: Float[Tensor, "n 2"],
    labels: Labels,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """-log of (1 - g) softmax(states E^T) + copied, at the labels, summed; the plain one beside it.

    `mixture`: of each position log(1 - g) and the probability that its label is copied.
    """
    loss, nll = _CopyLoss.apply(states, embedding, mixture, labels)
    return loss, nll


class _CopyLoss(torch.autograd.Function):
    """Cross entropy; a row weighs as much as generating has a share in its likelihood."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, embedding: Tensor, mixture: Tensor, labels: Labels
    ) -> tuple[Tensor, Tensor]:
        wanted, smoothing = any(ctx.needs_input_grad[:3]), labels.smoothing
        generating, copied = mixture.unbind(1)
        log_copied = copied.masked_fill(copied < TINY, 0.0).log()
        picked, mean_row = embedding[labels.ids], embedding.mean(0)
        known = torch.linalg.vecdot(states, picked) + generating

        def weigh(rows: slice, log_z: Tensor) -> Tensor:
            share = (known[rows] - log_z - log_copied[rows]).sigmoid()
            return (1 - smoothing) * share + smoothing

        made = partition(states, embedding, weigh, wanted=wanted)
        generated = known - made.log_z
        nll = -torch.logaddexp(generated, log_copied).sum()
        loss = (1 - smoothing) * nll + smoothing * (made.log_z - states @ mean_row).sum()
        if wanted:
            share = (1 - smoothing) * (generated - log_copied).sigmoid()
            made.grad_states.sub_(picked * share[:, None]).sub_(mean_row, alpha=smoothing)
            made.grad_embedding.index_add_(0, labels.ids, states * -share[:, None])
            made.grad_embedding.sub_(states.sum(0), alpha=smoothing / embedding.shape[0])
            other = (1 - smoothing) * (log_copied - generated).sigmoid() / copied.clamp(min=TINY)
            grad_mixture = -torch.stack([share, other], dim=1)
            ctx.save_for_backward(made.grad_states, made.grad_embedding, grad_mixture)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        states, embedding, mixture = (part * grads[0] for part in ctx.saved_tensors)
        return states, embedding, mixture, None
