"""Losses: each a sum over the batch, so that the caller alone decides what to divide by."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["plain_word_loss", "word_loss"]

# Rows whose logits exist at one time. Measured: fewer make more passes over the embedding's
# gradient, more leave the processor's cache. The second bounds the memory of large vocabularies.
_ROWS_AT_ONCE = 512
_LOGITS_AT_ONCE = 16_000_000


def plain_word_loss(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    labels: Int[Tensor, " n"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The oracle of word_loss: whole logits, torch's own log-softmax."""
    log_p = torch.log_softmax(states @ embedding.T, dim=-1)
    nll = -log_p.gather(1, labels[:, None]).sum()
    return (1 - smoothing) * nll - smoothing * log_p.mean(-1).sum(), nll.detach()


def word_loss(
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


class _WordLoss(torch.autograd.Function):
    """Logits in chunks, gradients at once, so that neither the logits nor softmax are ever stored.

    With x = exp(logits - max) and s = sum x, softmax is x/s; the gradients need only the products
    x E and x^T h, scaled by 1/s on the narrow side; the mean logit of a row is h . mean(E).
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, embedding: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        n, size = states.shape[0], embedding.shape[0]
        wanted = any(ctx.needs_input_grad[:2])
        grad_states = torch.empty_like(states) if wanted else None
        grad_embedding = torch.zeros_like(embedding) if wanted else None
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
            if grad_states is not None and grad_embedding is not None:
                torch.mm(x, embedding, out=grad_states[part]).div_(total)
                grad_embedding.addmm_(x.T, h / total)
        picked = embedding[labels]
        mean_row = embedding.mean(0)
        label_logits = torch.linalg.vecdot(states, picked)
        nll = (log_z - label_logits).sum()
        loss = (1 - smoothing) * nll + smoothing * (log_z - states @ mean_row).sum()
        if grad_states is not None and grad_embedding is not None:
            grad_states.sub_(picked, alpha=1 - smoothing).sub_(mean_row, alpha=smoothing)
            grad_embedding.index_add_(0, labels, states, alpha=smoothing - 1)
            grad_embedding.sub_(states.sum(0), alpha=smoothing / size)
            ctx.save_for_backward(grad_states, grad_embedding)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_states, grad_embedding = ctx.saved_tensors
        return grad_states * grads[0], grad_embedding * grads[0], None, None
