"""Random translations. What is drawn for a sentence hangs on the seed and its index alone."""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.corpus.vocabulary import EOS
from untold.decoding.candidates import Candidates, best_tokens
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.live import Live, predict
from untold.decoding.pool import Pool
from untold.decoding.searchable import Searchable
from untold.decoding.sentences import Sentences
from untold.decoding.trace import NOTHING, Show, Trace

__all__ = ["draw", "sample", "truncate", "uniforms"]


def sample(
    model: Searchable, sentences: Sentences, config: DecodeConfig, show: Show = NOTHING
) -> list[list[Hypothesis]]:
    """`nbest` independent translations of each sentence, best first; some may be the same.

    Scores are those of the model itself, without temperature and truncation.
    """
    samples = sentences.repeated(config.nbest)
    live = Live.begin(model, samples, config, 1)
    limits = live.rules.limits
    chances = uniforms(samples, config, limits).to(limits.device)
    pool, trace = Pool(samples, 1), Trace(live.last.flatten())
    while True:
        log_probs, live = predict(model, live, trace, samples, show)
        tokens = draw(log_probs, chances[live.numbers, trace.length, None], config)
        drawn = _continued(live, log_probs, tokens)
        ending = tokens == EOS
        if bool(ending.any()):
            pool.add(live.numbers, live.ends(drawn, ending, trace.length, config.length_penalty))
        still = (~ending & (drawn.scores > -torch.inf)).flatten().nonzero().flatten()
        if not len(still):
            return _grouped(pool.hypotheses(trace, limits), config.nbest)
        live = live.advance(drawn, still, trace)


def draw(
    log_probs: Float[Tensor, "b n v"], chances: Float64[Tensor, "b n"], config: DecodeConfig
) -> Int[Tensor, "b n"]:
    """The token at which the cumulated probabilities pass the chance, a number in [0, 1)."""
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
    """(probabilities, their tokens) after temperature, then top_k, then top_p, in that order.

    top_p keeps the likeliest tokens up to and with the one at which their sum, taken over what
    top_k has left, reaches p. Probabilities sum to one before top_p.
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
    """Chances for every step of every sample; its generator is seeded by (seed, index, sample)."""
    chances = torch.zeros(len(samples), int(limits.max()), dtype=torch.float64)
    for row, limit in enumerate(limits.tolist()):
        key = (config.seed, samples.index(row), row % config.nbest)
        seed = int(np.random.SeedSequence(key).generate_state(1)[0])
        generator = torch.Generator().manual_seed(seed)
        chances[row, :limit] = torch.rand(limit, generator=generator, dtype=torch.float64)
    return chances


def _continued(
    live: Live, log_probs: Float[Tensor, "b 1 v"], tokens: Int[Tensor, "b 1"]
) -> Candidates:
    values = log_probs.gather(-1, tokens[..., None]).squeeze(-1)
    return Candidates(live.scores + values, values, torch.zeros_like(tokens), tokens)


def _grouped(found: list[list[Hypothesis]], size: int) -> list[list[Hypothesis]]:
    """The samples of each sentence, best first."""
    samples = [hypothesis for (hypothesis,) in found]
    groups = (samples[first : first + size] for first in range(0, len(samples), size))
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]
