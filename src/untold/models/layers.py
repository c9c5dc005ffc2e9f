"""Layers that networks are built from: dropout, positions, attention, feed-forward; precision.

Shape letters: b sentences, i source positions, t target positions, n beams, k heads, d width,
e width of one head, r rows (sentences or hypotheses), q queries, s keys.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "swish": F.silu,
    "gelu": F.gelu,
}
_TILE = 65_536  # values of one tile of sigmoid_scores: measured to stay in a core's cache


class Dropout(nn.Module):
    """Zeroes each value with probability p and scales the others by 1/(1-p), while training.

    It follows the law of nn.Dropout, with p rounded to 1/65536. On CPUs torch draws one uniform
    number for each value on a single thread, which costs as much as a matrix product; this class
    draws 64 random bits for four values.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns x itself in evaluation mode or with p = 0."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p, training=True)
        keep, scale = _keep(x, self.p)
        return x * keep.mul_(scale)

    def add(
        self, x: Float[Tensor, "*shape"], update: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Computes x + dropout(update), on CPUs in one pass."""
        if not self.training or self.p == 0.0 or x.device.type != "cpu":
            return x + self(update)
        keep, scale = _keep(update, self.p)
        return torch.addcmul(x, update, keep, value=scale)

    def extra_repr(self) -> str:
        """Adds p to what print(model) shows."""
        return f"p={self.p}"


def _keep(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Draws ones with probability 1-p, else zeros, and returns the scale 1/(1-p) beside them."""
    dropped = round(p * 65536)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - 32768).to(x.dtype), 65536 / (65536 - dropped)


class PositionalEmbedding(nn.Module):
    """Embeds words with positions: dropout(sqrt(d) E[w] + sinusoid(t)), for any position t."""

    def __init__(self, embedding: nn.Embedding, dropout: float, known: int = 1024) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        if embedding.weight.is_meta:  # a model that is only measured needs no values
            table = embedding.weight.new_empty(known, embedding.embedding_dim)
        else:
            table = _sinusoids(0, known, embedding.embedding_dim, torch.device("cpu"))
        self.table = nn.Buffer(table, persistent=False)

    def forward(self, ids: Tensor, first: int = 0) -> Tensor:
        """Maps ids (r, t) at positions first, first+1, ... to vectors (r, t, d)."""
        d, end = self.embedding.embedding_dim, first + ids.shape[1]
        if end <= self.table.shape[0]:
            positions = self.table[first:end]
        else:
            positions = _sinusoids(first, end, d, ids.device).to(self.table.dtype)
        return self.dropout(torch.add(positions, self.embedding(ids), alpha=math.sqrt(d)))

    def at(self, ids: Tensor, position: int) -> Tensor:
        """Maps ids (r) that all stand at one position to vectors (r, d), without dropout."""
        words, d = torch.embedding(self.embedding.weight, ids), self.embedding.embedding_dim
        if position < self.table.shape[0]:
            return torch.add(self.table[position], words, alpha=math.sqrt(d))
        there = _sinusoids(position, position + 1, d, ids.device).to(self.table.dtype)
        return torch.add(there, words, alpha=math.sqrt(d))


def _sinusoids(first: int, end: int, d: int, device: torch.device) -> Tensor:
    positions = torch.arange(first, end, device=device, dtype=torch.float64)
    rates = torch.arange(0, d, 2, device=device, dtype=torch.float64).mul(-math.log(1e4) / d).exp()
    angles = positions[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).float()


def attend(
    queries: Float[Tensor, "r k q e"],
    keys: Float[Tensor, "r k s e"],
    values: Float[Tensor, "r k s e"],
    mask: Bool[Tensor, "r 1 1 s"] | None,
) -> tuple[Float[Tensor, "r k q e"], Float[Tensor, "r q s"]]:
    """Computes dot-product attention and returns its weights, averaged over heads, beside it."""
    weights = _attention_weights(queries, keys, mask)
    return weights.to(values.dtype) @ values, weights.mean(1)


def fused_attention(
    heads: tuple[Float[Tensor, "r k q e"], Float[Tensor, "r k s e"], Float[Tensor, "r k s e"]],
    mask: Bool[Tensor, "r 1 1 s"] | None,
    dropout: float,
    *,
    causal: bool = False,
) -> Float[Tensor, "r k q e"]:
    """Computes dot-product attention of (queries, keys, values) by torch's fused kernel.

    In bf16 on CPUs that kernel is several times slower than plain products, which replace it there.
    """
    queries, keys, values = heads
    if queries.dtype is not torch.bfloat16 or queries.device.type != "cpu":
        return F.scaled_dot_product_attention(
            queries, keys, values, mask, dropout, is_causal=causal
        )
    if causal:
        mask = torch.ones(queries.shape[2], keys.shape[2], dtype=torch.bool).tril()
    weights = _attention_weights(queries, keys, mask).to(values.dtype)
    return F.dropout(weights, dropout) @ values


def _attention_weights(queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))


class FeedForward(nn.Module):
    """Computes W_2 dropout(f(W_1 x)); the result is as wide as x unless `d_out` is given."""

    def __init__(
        self,
        d_model: int,
        d_ffn: int,
        dropout: float,
        *,
        d_out: int | None = None,
        activation: str = "relu",
    ) -> None:
        """`activation` is the name of f, a key of ACTIVATIONS."""
        super().__init__()
        self.activation = activation
        self.inner = nn.Linear(d_model, d_ffn)
        self.outer = nn.Linear(d_ffn, d_out or d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """Maps each position independently."""
        return self.outer(self.dropout(ACTIVATIONS[self.activation](self.inner(x))))


def sigmoid_scores(
    keys: Float[Tensor, "n i c"], query: Float[Tensor, "n t c"], weight: Float[Tensor, " c"]
) -> Float[Tensor, "n t i"]:
    """Computes weight . sigmoid(keys + query) for each pair of a key and a query."""
    if keys.device.type != "cpu" or torch.compiler.is_compiling():
        return (keys[:, None] + query[:, :, None]).sigmoid() @ weight
    wide = torch.promote_types(keys.dtype, weight.dtype)  # autocast may have made them differ
    return _SigmoidScores.apply(keys.to(wide), query.to(wide), weight.to(wide))


class _SigmoidScores(torch.autograd.Function):
    """Computes s[n,t,i] = w . sigmoid(k[n,i] + q[n,t]) tile by tile: no (n t i c) tensor exists.

    With y = sigmoid: ds/dk = ds/dq = w y (1 - y), ds/dw = y. The backward pass recomputes y.
    """

    @staticmethod
    def forward(ctx: Any, keys: Tensor, query: Tensor, weight: Tensor) -> Tensor:
        keys, query = keys.contiguous(), query.contiguous()
        ctx.save_for_backward(keys, query, weight)
        scores = keys.new_empty(keys.shape[0], query.shape[1], keys.shape[1])
        for n, t in _tiles(keys, query):
            hidden = (keys[n, None] + query[n, t, None]).sigmoid_()
            scores[n, t] = hidden @ weight
        return scores

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, query, weight = ctx.saved_tensors
        grad_keys, grad_query = torch.zeros_like(keys), torch.empty_like(query)
        grad_weight = torch.zeros_like(weight)
        for n, t in _tiles(keys, query):
            hidden, grad = (keys[n, None] + query[n, t, None]).sigmoid_(), grads[0][n, t]
            grad_weight.addmv_(hidden.flatten(0, -2).T, grad.flatten())
            slope = hidden.addcmul_(hidden, hidden, value=-1).mul_(grad[..., None])
            grad_keys[n] += slope.sum(1)
            grad_query[n, t] = slope.sum(2)
        return grad_keys.mul_(weight), grad_query.mul_(weight), grad_weight


def _tiles(keys: Tensor, query: Tensor) -> list[tuple[slice, slice]]:
    """Cuts (n, t) into slices whose hidden values fit the cache: several n, or part of one's t."""
    (rows, length, width), steps = keys.shape, query.shape[1]
    many = max(1, _TILE // (steps * length * width))
    few = steps if many > 1 else max(1, min(steps, _TILE // (length * width)))
    return [
        (slice(n, n + many), slice(t, t + few))
        for n in range(0, rows, many)
        for t in range(0, steps, few)
    ]


def full_precision(near: Tensor) -> AbstractContextManager[object]:
    """Switches autocast off within the block, for operands on the device of `near`.

    Routing and losses need it where layers compute in 16 bits: their kernels multiply operands of
    one kind, and shares near zero and one, their logarithms and sums over a sentence are too fine.
    """
    kind = near.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


def widen(numbers: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Returns the same numbers, in 32 bits if they have fewer."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))
