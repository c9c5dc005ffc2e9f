"""Losses: each a sum over the batch, so that the caller alone decides what to divide by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

__all__ = [
    "Partition",
    "label_smoothed_cross_entropy",
    "partition",
    "plain_cross_entropy",
    "token_log_probs",
    "weighted_log_partition",
]

# Rows whose logits exist at one time. Measured: fewer make more passes over the embedding's
# gradient, more leave the processor's cache. The second bounds the memory of large vocabularies.
_ROWS_AT_ONCE = 512
_LOGITS_AT_ONCE = 16_000_000


def plain_cross_entropy(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    labels: Int[Tensor, " n"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The oracle of label_smoothed_cross_entropy: whole logits, torch's own log-softmax."""
    log_p = torch.log_softmax(states @ embedding.T, dim=-1)
    nll = -log_p.gather(1, labels[:, None]).sum()
    return (1 - smoothing) * nll - smoothing * log_p.mean(-1).sum(), nll.detach()


def label_smoothed_cross_entropy(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    labels: Int[Tensor, " n"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Label-smoothed cross-entropy of softmax(states E^T), summed, and the plain one beside it.

    Smoothing mixes the labels with the uniform distribution over the vocabulary.
    """
    loss, nll = _WordLoss.apply(states, embedding, labels, smoothing)
    return loss, nll


def weighted_log_partition(
    states: Float[Tensor, "n d"], embedding: Float[Tensor, "v d"], weights: Float[Tensor, " n"]
) -> Float[Tensor, ""]:
    """Sum of weights times logsumexp(states E^T); the weights are constants."""
    return _LogPartition.apply(states, embedding, weights)


def token_log_probs(
    states: Float[Tensor, "n d"], embedding: Float[Tensor, "v d"], labels: Int[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """log softmax(states E^T) at the labels; logits are made in chunks, and again for gradients."""
    rows = max(1, _LOGITS_AT_ONCE // embedding.shape[0])
    if len(labels) <= rows:
        return _log_probs(states, embedding, labels)
    parts = zip(states.split(rows), labels.split(rows), strict=True)
    found = [
        checkpoint(_log_probs, h, embedding, y, use_reentrant=False, preserve_rng_state=False)
        for h, y in parts
    ]
    return torch.cat(found)


def _log_probs(states: Tensor, embedding: Tensor, labels: Tensor) -> Tensor:
    logits = states @ embedding.T
    wide = torch.promote_types(logits.dtype, torch.float32)  # half precision is too coarse here
    return -F.cross_entropy(logits.to(wide), labels, reduction="none")


@dataclass(frozen=True)
class Partition:
    """log Z of each row and, where wanted, the gradients of the weighted sum of them."""

    log_z: Tensor
    grad_states: Tensor
    grad_embedding: Tensor


def partition(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    weigh: Callable[[slice, Tensor], Tensor] | None,
    *,
    wanted: bool,
) -> Partition:
    """Logits in chunks, gradients at once, so that neither the logits nor softmax are ever stored.

    `weigh(rows, log_z)` gives the weights of a chunk; without it all are one. With
    x = exp(logits - max) and s = sum x, softmax is x/s; the gradients need only the products x E
    and x^T h, scaled by 1/s on the narrow side.
    """
    n, size = states.shape[0], embedding.shape[0]
    grad_states = torch.empty_like(states) if wanted else states
    grad_embedding = torch.zeros_like(embedding) if wanted else embedding
    log_z = states.new_empty(n)
    rows = max(1, min(n, _ROWS_AT_ONCE, _LOGITS_AT_ONCE // size))
    buffer = states.new_empty(rows, size)
    for first in range(0, n, rows):
        part = slice(first, min(n, first + rows))
        h = states[part]
        x = torch.mm(h, embedding.T, out=buffer[: h.shape[0]])
        top = x.amax(-1, keepdim=True)
        total = x.sub_(top).exp_().sum(-1, keepdim=True)
        log_z[part] = (top + total.log()).squeeze(1)
        if wanted:
            scale = 1 / total if weigh is None else weigh(part, log_z[part])[:, None] / total
            torch.mm(x, embedding, out=grad_states[part]).mul_(scale)
            grad_embedding.addmm_(x.T, h * scale)
    return Partition(log_z, grad_states, grad_embedding)


class _LogPartition(torch.autograd.Function):
    """The gradients are made with the values."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, embedding: Tensor, weights: Tensor) -> Tensor:
        wanted = any(ctx.needs_input_grad[:2])
        made = partition(states, embedding, lambda part, _: weights[part], wanted=wanted)
        ctx.save_for_backward(made.grad_states, made.grad_embedding)
        return made.log_z @ weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        wanted = ctx.needs_input_grad
        made = zip(ctx.saved_tensors, wanted, strict=False)
        states, embedding = (part * grads[0] if want else None for part, want in made)
        return states, embedding, None


class _WordLoss(torch.autograd.Function):
    """The gradients are made with the values; the mean logit of a row is h . mean(E)."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, embedding: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:2])
        made = partition(states, embedding, None, wanted=wanted)
        picked, mean_row = embedding[labels], embedding.mean(0)
        nll = (made.log_z - torch.linalg.vecdot(states, picked)).sum()
        loss = (1 - smoothing) * nll + smoothing * (made.log_z - states @ mean_row).sum()
        if wanted:
            made.grad_states.sub_(picked, alpha=1 - smoothing).sub_(mean_row, alpha=smoothing)
            made.grad_embedding.index_add_(0, labels, states, alpha=smoothing - 1)
            made.grad_embedding.sub_(states.sum(0), alpha=smoothing / embedding.shape[0])
            ctx.save_for_backward(made.grad_states, made.grad_embedding)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_states, grad_embedding = ctx.saved_tensors
        return grad_states * grads[0], grad_embedding * grads[0], None, None
