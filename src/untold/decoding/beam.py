"""Beam search. With a beam of one it is greedy search.

Each step keeps the best `beam` unfinished continuations of a sentence; one that ends, and is among
the best `beam` of all, is scored with the length penalty and kept aside. A sentence is done when
`beam` hypotheses have ended, or when none that is still growing can come to beat the n-best list:
log-probabilities only fall, so log p / penalty(limit) bounds what a hypothesis can reach. A beam
wide enough to hold everything is therefore exhaustive search.
"""

from jaxtyping import Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.decoding.candidates import best_candidates, split_ends
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.live import Live, predict
from untold.decoding.penalties import length_penalty
from untold.decoding.pool import Pool
from untold.decoding.searchable import Searchable
from untold.decoding.sentences import Sentences
from untold.decoding.trace import Trace

__all__ = ["beam_search"]


def beam_search(
    model: Searchable, sentences: Sentences, config: DecodeConfig, *, attention: bool = False
) -> list[list[Hypothesis]]:
    """The n-best translations of each sentence, best first and all different."""
    live = Live.begin(model, sentences, config, 1)  # before the first token all beams are one
    limits, alpha = live.rules.limits, config.length_penalty
    pool, trace = Pool(sentences, config.nbest), Trace(live.last.flatten())
    while len(live.numbers):
        log_probs, state = predict(model, live, trace, sentences, attention=attention)
        candidates = best_candidates(log_probs, live.scores, config.beam)
        ending, going_on = split_ends(candidates, config.beam)
        if bool(ending.any()):
            pool.add(live.numbers, live.ends(candidates, ending, trace.length, alpha))
        still = _undecided(pool, live, going_on.scores[:, 0], config)
        live = live.advance(state, going_on, still, trace)
    return pool.hypotheses(trace, limits)


def _undecided(
    pool: Pool, live: Live, best: Float64[Tensor, " b"], config: DecodeConfig
) -> Int[Tensor, " s"]:
    """The sentences whose growing hypotheses, of at most log-probability `best`, may matter."""
    penalty = length_penalty(live.rules.limits.double(), config.length_penalty)
    within_reach = best / penalty > pool.worst(live.numbers)
    return (within_reach & (pool.counts(live.numbers) < config.beam)).nonzero().flatten()
