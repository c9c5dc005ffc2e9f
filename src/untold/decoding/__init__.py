"""From ids to hypotheses: search, sampling, scoring, ensembles. Never sees a string or a file."""

from untold.decoding.beam_search import SearchStep, beam_search, search
from untold.decoding.ensemble import Ensemble
from untold.decoding.interface import Hypothesis, Scorable, Searchable, Sentences
from untold.decoding.penalties import CoveragePenalty, length_penalty
from untold.decoding.teacher_forcing import score_pairs, token_log_probabilities
from untold.decoding.telling import UntoldRule, charge_untold

__all__ = [
    "CoveragePenalty",
    "Ensemble",
    "Hypothesis",
    "Scorable",
    "SearchStep",
    "Searchable",
    "Sentences",
    "UntoldRule",
    "beam_search",
    "charge_untold",
    "length_penalty",
    "score_pairs",
    "search",
    "token_log_probabilities",
]
