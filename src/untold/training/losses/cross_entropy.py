"""Label-smoothed cross entropy of a batch, of a model that generates words or also copies them.

    -log p(y|x)   label-smoothed:   (1 - s) * -log p(y)  +  s * -(mean over the vocabulary of log p)

A model that copies has p = (1 - g) softmax(h E^T) + copied. Its labels are smoothed over the
softmax alone, since most words of the vocabulary cannot be copied.

The fused functions make the logits of a few rows at a time, and the gradients together with the
values, so that neither the logits nor their softmax are ever stored. Beside each stands a plain
form, which the tests compare it with. All losses are sums, so that the caller decides what to
divide by.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.copy_mechanism import TINY
from untold.models.layers import full_precision, widen
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.training.losses.loss import Loss, LossContext

# Rows whose logits exist at one time. Measured: fewer make more passes over the embedding's
# gradient, more leave the processor's cache. The second bounds the memory of large vocabularies.
_ROWS_AT_ONCE = 512
_LOGITS_AT_ONCE = 16_000_000


class CrossEntropyLoss(Loss):
    """Trains the model to predict the reference; the log shows it without label smoothing."""

    name = "nll"
    auxiliary = False
    trains_backbone = True

    def weight(self, config: TrainConfig) -> float:  # noqa: ARG002
        """Returns one: the other weights are relative to it."""
        return 1.0

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the label-smoothed cross entropy, summed over the target tokens."""
        loss, context.figures[self.name] = translation_loss(
            context.model, context.outputs, context.batch, context.config.label_smoothing
        )
        return loss


@dataclass(frozen=True)
class Labels:
    """The right tokens of n positions, and the share of each that label smoothing spreads."""

    ids: Int[Tensor, " n"]
    smoothing: float


def translation_loss(
    model: Seq2Seq, outputs: Outputs, batch: Batch, smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Computes -log p(y|x), summed over the target tokens: label-smoothed, and without."""
    real, labels = batch.target_mask, batch.labels[batch.target_mask]
    states, embedding = model.backbone.output_layer().augmented(outputs.holistic[real])
    if outputs.copied is None:
        return label_smoothed_cross_entropy(states, embedding, labels, smoothing)
    copied = outputs.copied.probability(batch.labels)[real]
    mixture = torch.stack([outputs.copied.generating[real], copied], dim=1)
    return copy_loss(states, embedding, mixture, Labels(labels, smoothing))


def plain_cross_entropy(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    labels: Int[Tensor, " n"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Computes label_smoothed_cross_entropy from whole logits, with torch's own log-softmax."""
    log_p = torch.log_softmax(states @ embedding.T, dim=-1)
    nll = -log_p.gather(1, labels[:, None]).sum()
    return (1 - smoothing) * nll - smoothing * log_p.mean(-1).sum(), nll.detach()


def label_smoothed_cross_entropy(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    labels: Int[Tensor, " n"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Computes the cross entropy of softmax(states E^T), summed: label-smoothed, and without.

    Smoothing mixes the labels with the uniform distribution over the vocabulary.
    """
    wide = torch.promote_types(states.dtype, embedding.dtype)  # autocast may have made them differ
    loss, nll = _CrossEntropy.apply(states.to(wide), embedding.to(wide), labels, smoothing)
    return loss, nll


def plain_copy_loss(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    mixture: Float[Tensor, "n 2"],
    labels: Labels,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Computes copy_loss from whole logits, with the probabilities as the formula has them."""
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
    """Computes the cross entropy of (1 - g) softmax(states E^T) + copied: smoothed, and without.

    `mixture` holds log(1 - g) of each position and the probability that its label is copied.
    """
    wide = torch.promote_types(states.dtype, embedding.dtype)
    operands = (each.to(wide) for each in (states, embedding, mixture))
    loss, nll = _CopyLoss.apply(*operands, labels)
    return loss, nll


def weighted_log_partition(
    states: Float[Tensor, "n d"],
    embedding: Float[Tensor, "v d"],
    weights: Float[Tensor, " n"],
    bias: Float[Tensor, " v"] | None = None,
) -> Float[Tensor, ""]:
    """Sums weights times logsumexp(states E^T + bias); weights and bias get no gradient."""
    with full_precision(states):
        return _LogPartition.apply(widen(states), widen(embedding), widen(weights), bias)


def token_log_probs(
    states: Float[Tensor, "n d"], embedding: Float[Tensor, "v d"], labels: Int[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Computes log softmax(states E^T) at the labels.

    Large logits are made in chunks, and made again for the gradients.
    """
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
class _Partition:
    """Holds log Z of each row and, where wanted, the gradients of their weighted sum."""

    log_z: Tensor
    grad_states: Tensor
    grad_embedding: Tensor


def _partition(
    states: Tensor,
    embedding: Tensor,
    weigh: Callable[[slice, Tensor], Tensor] | None,
    *,
    wanted: bool,
    bias: Tensor | None = None,
) -> _Partition:
    """Computes log Z chunk by chunk, and the gradients in the same pass.

    `weigh(rows, log_z)` returns the weights of a chunk; None means one for each row. With
    x = exp(logits - max) and s = sum x, softmax is x/s; the gradients need only the products x E
    and x^T h, scaled by 1/s on the narrow side. Under autocast, products round their operands.
    """
    n, size = states.shape[0], embedding.shape[0]
    kind = states.device.type
    rounding = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
    factor = embedding.to(rounding)
    grad_states = torch.empty_like(states) if wanted else states
    grad_embedding = torch.zeros_like(embedding) if wanted else embedding
    log_z = states.new_empty(n)
    rows = max(1, min(n, _ROWS_AT_ONCE, _LOGITS_AT_ONCE // size))
    buffer = factor.new_empty(rows, size)
    for first in range(0, n, rows):
        part = slice(first, min(n, first + rows))
        h = states[part]
        x = torch.mm(h.to(rounding), factor.T, out=buffer[: h.shape[0]]).to(states.dtype)
        if bias is not None:
            x.add_(bias)
        top = x.amax(-1, keepdim=True)
        total = x.sub_(top).exp_().sum(-1, keepdim=True)
        log_z[part] = (top + total.log()).squeeze(1)
        if wanted:
            scale = 1 / total if weigh is None else weigh(part, log_z[part])[:, None] / total
            weights, scaled = x.to(rounding), (h * scale).to(rounding)
            torch.mul(weights @ factor, scale, out=grad_states[part])
            if rounding is states.dtype:
                grad_embedding.addmm_(weights.T, scaled)
            else:
                grad_embedding.add_(weights.T @ scaled)
    return _Partition(log_z, grad_states, grad_embedding)


class _LogPartition(torch.autograd.Function):
    """Computes the gradients together with the value."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, embedding: Tensor, weights: Tensor, bias: Tensor | None
    ) -> Tensor:
        wanted = any(ctx.needs_input_grad[:2])
        made = _partition(
            states, embedding, lambda part, _: weights[part], wanted=wanted, bias=bias
        )
        ctx.save_for_backward(made.grad_states, made.grad_embedding)
        return made.log_z @ weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        wanted = ctx.needs_input_grad
        made = zip(ctx.saved_tensors, wanted, strict=False)
        states, embedding = (part * grads[0] if want else None for part, want in made)
        return states, embedding, None, None


class _CrossEntropy(torch.autograd.Function):
    """Computes the gradients together with the value; the mean logit of a row is h . mean(E)."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, embedding: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:2])
        made = _partition(states, embedding, None, wanted=wanted)
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


class _CopyLoss(torch.autograd.Function):
    """Weighs the softmax of each row by the share that generating has in its likelihood."""

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

        made = _partition(states, embedding, weigh, wanted=wanted)
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
