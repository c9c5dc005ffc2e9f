"""Beam search. With a beam of one it is greedy search.

Every sentence has room for `beam` hypotheses. Each step keeps its best continuations; one that ends
is scored with the penalties and put aside, and there is room for one less. A sentence is done when
all have ended, or when none that is still growing can come to beat the n-best list: since
log-probabilities only fall, log p / penalty(limit) bounds what a hypothesis can reach, and coverage
only takes from it. A beam wide enough to hold everything is therefore exhaustive search.
"""

from jaxtyping import Float64, Int
from torch import Tensor

from untold.config import DecodeConfig
from untold.corpus.vocabulary import EOS
from untold.decoding.candidates import best_candidates
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.length_penalty import length_penalty
from untold.decoding.live import Live, predict
from untold.decoding.pool import Pool
from untold.decoding.searchable import Searchable
from untold.decoding.sentences import Sentences
from untold.decoding.trace import NOTHING, Show, Trace

__all__ = ["beam_search"]


def beam_search(
    model: Searchable, sentences: Sentences, config: DecodeConfig, show: Show = NOTHING
) -> list[list[Hypothesis]]:
    """The n-best translations of each sentence, best first and all different."""
    live = Live.begin(model, sentences, config, 1)  # before the first token all beams are one
    limits, alpha = live.rules.limits, config.length_penalty
    pool, trace = Pool(sentences, config.nbest), Trace(live.last.flatten())
    while True:
        log_probs, live = predict(model, live, trace, sentences, show)
        room = config.beam - pool.counts(live.numbers)
        candidates = best_candidates(log_probs, live.scores, room)
        ending = candidates.tokens == EOS
        if bool(ending.any()):
            pool.add(live.numbers, live.ends(candidates, ending, trace.length, alpha))
            candidates = candidates.without(ending)
        still = _undecided(pool, live, candidates.scores[:, 0], config)
        if not len(still):
            return pool.hypotheses(trace, limits)
        live = live.advance(candidates, still, trace)


def _undecided(
    pool: Pool, live: Live, best: Float64[Tensor, " b"], config: DecodeConfig
) -> Int[Tensor, " s"]:
    """The sentences whose growing hypotheses, of at most log-probability `best`, may matter."""
    penalty = length_penalty(live.rules.limits.double(), config.length_penalty)
    return (best / penalty > pool.worst(live.numbers)).nonzero().flatten()
