"""Random choice of the next token.

The seed and the index of a sentence alone determine what is drawn for it. Hypotheses keep the
scores of the model itself, without temperature.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.hypotheses import Sentences


def draw(
    log_probs: Float[Tensor, "b n v"], chances: Float64[Tensor, "b n"], temperature: float
) -> Int[Tensor, "b n"]:
    """Finds the token at which the cumulated probabilities pass the chance, a number in [0, 1)."""
    cumulated = (log_probs / temperature).softmax(-1).double().cumsum(-1)
    total = cumulated[..., -1:]
    # Rounding may take the product up to the total itself, beyond the last token.
    passed = torch.minimum(chances[..., None] * total, total.nextafter(torch.zeros_like(total)))
    places = torch.searchsorted(cumulated, passed, right=True)
    return places.clamp(max=log_probs.shape[-1] - 1).squeeze(-1)


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
