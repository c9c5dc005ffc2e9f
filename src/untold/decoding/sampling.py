"""Random translations. What is drawn for a sentence hangs on the seed and its index alone."""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.corpus.vocabulary import EOS, PAD
from untold.decoding.candidates import Candidates, best_tokens
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.live import Live, predict
from untold.decoding.pool import Pool
from untold.decoding.searchable import Searchable
from untold.decoding.sentences import Sentences
from untold.decoding.trace import Trace

__all__ = ["draw", "sample", "truncate", "uniforms"]


def sample(
    model: Searchable, sentences: Sentences, config: DecodeConfig, *, attention: bool = False
) -> list[list[Hypothesis]]:
    """`nbest` independent translations of each sentence, best first; some may be the same.

    Scores are those of the model itself, without temperature and truncation.
    """
    live = Live.begin(model, sentences, config, config.nbest)
    limits = live.rules.limits
    chances = uniforms(sentences, config, limits).to(limits.device)
    pool, trace = Pool(sentences, config.nbest), Trace(live.last.flatten())
    while len(live.numbers):
        log_probs, state = predict(model, live, trace, sentences, attention=attention)
        tokens = draw(log_probs, chances[live.numbers, :, trace.length], config)
        drawn = _continuations(log_probs, tokens, live)
        ending = drawn.tokens == EOS
        pool.add(live.numbers, live.ends(drawn, ending, trace.length, config.length_penalty))
        drawn = _without(drawn, ending)
        still = (drawn.scores > -torch.inf).any(1).nonzero().flatten()
        live = live.advance(state, drawn, still, trace)
    return pool.hypotheses(trace, limits)


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
    sentences: Sentences, config: DecodeConfig, limits: Int[Tensor, " b"]
) -> Float64[Tensor, "b n t"]:
    """Chances for every sentence, sample and step, each sample with a generator of its own."""
    chances = torch.zeros(len(sentences), config.nbest, int(limits.max()), dtype=torch.float64)
    for position, limit in enumerate(limits.tolist()):
        for number in range(config.nbest):
            key = (config.seed, sentences.index(position), number)
            seed = int(np.random.SeedSequence(key).generate_state(1)[0])
            generator = torch.Generator().manual_seed(seed)
            chances[position, number, :limit] = torch.rand(
                limit, generator=generator, dtype=torch.float64
            )
    return chances


def _continuations(
    log_probs: Float[Tensor, "b n v"], tokens: Int[Tensor, "b n"], live: Live
) -> Candidates:
    """Every hypothesis with its token; those that had ended stay at -inf."""
    values = log_probs.gather(-1, tokens[..., None]).squeeze(-1)
    beams = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    return _without(
        Candidates(live.scores + values, values, beams, tokens), live.scores == -torch.inf
    )


def _without(drawn: Candidates, gone: Tensor) -> Candidates:
    return Candidates(
        drawn.scores.masked_fill(gone, -torch.inf),
        drawn.log_probs,
        drawn.beams,
        drawn.tokens.masked_fill(gone, PAD),
    )
