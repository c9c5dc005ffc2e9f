"""Random choice of the next token: temperature, top-k and top-p sampling.

The seed and the index of a sentence alone determine what is drawn for it. Hypotheses keep the
scores of the model itself, without temperature and truncation.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.interface import Sentences
from untold.decoding.top_k import best_tokens

__all__ = ["draw", "truncate", "uniforms"]


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
