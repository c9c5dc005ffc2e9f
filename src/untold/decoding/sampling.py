"""The best tokens of each row of log-probabilities. Of equal ones the lower ids are better.

A compiled kernel finds them in one pass; where there is none, torch needs some more.

Random choice of the next token: temperature, top-k and top-p sampling.

The seed and the index of a sentence alone determine what is drawn for it. Hypotheses keep the
scores of the model itself, without temperature and truncation.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.hypotheses import Sentences
from untold.inference.kernels import load

COLUMN = 16  # measured: the height at which a large vocabulary is searched fastest
_MOST = 64  # tokens that the kernel finds: it keeps them sorted, which is slow for many


def best_tokens(
    log_probs: Float[Tensor, "b n v"], count: int
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "b n k"]]:
    """Finds the best tokens of each row and sorts them by id."""
    count = min(count, log_probs.shape[-1])
    values, tokens = top(log_probs, min(count + 1, log_probs.shape[-1]))
    if values.shape[-1] > count:
        last, next_best = values[..., count - 1], values[..., count]
        tied = (last == next_best) & (last > -torch.inf)
        values, tokens = values[..., :count], tokens[..., :count]
        if bool(tied.any()):  # topk returns any of the tied tokens
            tokens = tokens.clone()
            by_id = log_probs[tied].sort(descending=True, stable=True).indices
            tokens[tied] = by_id[:, :count]
    tokens = tokens.sort(-1).values
    return log_probs.gather(-1, tokens), tokens


def top(
    log_probs: Float[Tensor, "*b v"], count: int
) -> tuple[Float[Tensor, "*b k"], Int[Tensor, "*b k"]]:
    """Finds the best tokens of each row, best first."""
    kernels, wanted = load(), (torch.float32, "cpu")
    if kernels is None or count > _MOST or (log_probs.dtype, log_probs.device.type) != wanted:
        return top_in_torch(log_probs, count)
    log_probs = log_probs.contiguous()
    *many, size = log_probs.shape
    values = log_probs.new_empty(*many, count)
    tokens = torch.empty(*many, count, dtype=torch.long)
    rows, addresses = log_probs.numel() // size, (values.data_ptr(), tokens.data_ptr())
    kernels.largest(log_probs.data_ptr(), size, count, rows, *addresses)
    return values, tokens


def top_in_torch(
    log_probs: Float[Tensor, "*b v"], count: int
) -> tuple[Float[Tensor, "*b k"], Int[Tensor, "*b k"]]:
    """Computes topk in less time: the best `count` lie in the columns with the best maxima.

    Of equal tokens it returns any.

    The vocabulary is written as rows of `width` ids under each other; the ids that are left over
    are added at the end. Maxima over columns run at the speed of memory, which topk does not.
    """
    size = log_probs.shape[-1]
    width = size // COLUMN
    if width < COLUMN * count:
        return log_probs.topk(count)
    table = log_probs[..., : COLUMN * width].unflatten(-1, (COLUMN, width))
    columns = table.amax(-2).topk(count, sorted=False).indices
    tokens = (columns[..., None] + _starts(size, log_probs.device)).flatten(-2)
    if size > COLUMN * width:
        rest = torch.arange(COLUMN * width, size, device=log_probs.device)
        tokens = torch.cat([tokens, rest.expand(*tokens.shape[:-1], -1)], dim=-1)
    values, places = log_probs.gather(-1, tokens).topk(count)
    return values, tokens.gather(-1, places)


@lru_cache(maxsize=16)
def _starts(size: int, device: torch.device) -> Int[Tensor, " c"]:
    """Returns the first id of each row of the table."""
    width = size // COLUMN
    return torch.arange(0, COLUMN * width, width, device=device)


def draw(
    log_probs: Float[Tensor, "b n v"], chances: Float64[Tensor, "b n"], config: DecodeConfig
) -> Int[Tensor, "b n"]:
    """Finds the token at which the cumulated probabilities pass the chance, a number in [0, 1)."""
    probs, tokens = truncate(log_probs, config)
    cumulated = probs.double().cumsum(-1)
    total = cumulated[..., -1:]
    # Rounding may take the product up to the total itself, beyond the last token.
    passed = torch.minimum(chances[..., None] * total, total.nextafter(torch.zeros_like(total)))
    places = torch.searchsorted(cumulated, passed, right=True).clamp(max=probs.shape[-1] - 1)
    return tokens.expand(probs.shape).gather(-1, places).squeeze(-1)


def truncate(
    log_probs: Float[Tensor, "b n v"], config: DecodeConfig
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "*b k"]]:
    """Returns (probabilities, their tokens) after temperature, then top_k, then top_p.

    top_p keeps the likeliest tokens up to and with the one at which their sum, taken over the
    tokens that top_k has left, reaches p. Probabilities sum to one before top_p.
    """
    tokens = torch.arange(log_probs.shape[-1], device=log_probs.device)
    if config.top_k:
        log_probs, tokens = best_tokens(log_probs, config.top_k)
    if config.top_p < 1.0:
        log_probs, order = log_probs.sort(descending=True, stable=True)
        tokens = tokens.expand(order.shape).gather(-1, order)
    probs = (log_probs / config.temperature).softmax(-1)
    if config.top_p < 1.0:
        before = probs.double().cumsum(-1) - probs
        probs = probs.masked_fill(before >= config.top_p, 0.0)
    return probs, tokens


def uniforms(
    samples: Sentences, config: DecodeConfig, limits: Int[Tensor, " b"]
) -> Float64[Tensor, "b t"]:
    """Draws chances for every step of every sample, seeded by (seed, index, number of sample)."""
    chances = torch.zeros(len(samples), int(limits.max()), dtype=torch.float64)
    for row, limit in enumerate(limits.tolist()):
        key = (config.seed, samples.index(row), row % config.nbest)
        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        generator = torch.Generator().manual_seed(seed)
        chances[row, :limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    return chances.to(limits.device)
