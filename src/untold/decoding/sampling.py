"""Random choice of the next token: temperature, top-k and top-p sampling.

The seed and the index of a sentence alone determine what is drawn for it.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.candidates import Candidates, best_tokens
from untold.decoding.interface import Sentences

__all__ = ["draw", "draw_candidates", "truncate", "uniforms"]


def draw_candidates(
    log_probs: Float[Tensor, "b 1 v"],
    scores: Float64[Tensor, "b 1"],
    chances: Float64[Tensor, "b 1"],
    config: DecodeConfig,
) -> Candidates:
    """Draw one continuation of each hypothesis.

    It is scored by the model's own probabilities, without temperature and truncation.
    """
    tokens = draw(log_probs, chances, config)
    values = log_probs.gather(-1, tokens[..., None]).squeeze(-1)
    return Candidates(scores + values, values, torch.zeros_like(tokens), tokens)


def draw(
    log_probs: Float[Tensor, "b n v"], chances: Float64[Tensor, "b n"], config: DecodeConfig
) -> Int[Tensor, "b n"]:
    """Find the token at which the cumulated probabilities pass the chance, a number in [0, 1)."""
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
    """Return (probabilities, their tokens) after temperature, then top_k, then top_p.

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
    """Draw chances for every step of every sample, seeded by (seed, index, number of sample)."""
    chances = torch.zeros(len(samples), int(limits.max()), dtype=torch.float64)
    for row, limit in enumerate(limits.tolist()):
        key = (config.seed, samples.index(row), row % config.nbest)
        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        generator = torch.Generator().manual_seed(seed)
        chances[row, :limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    return chances.to(limits.device)
