"""From ids to hypotheses: search, sampling, scoring, ensembles. Never sees a string or a file."""

from untold.decoding.coverage_penalty import CoveragePenalty
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.length_penalty import length_penalty
from untold.decoding.search import search
from untold.decoding.searchable import Scorable, Searchable
from untold.decoding.sentences import Sentences
from untold.decoding.teacher_forcing import score_pairs
from untold.decoding.trace import NOTHING, Show

__all__ = [
    "NOTHING",
    "CoveragePenalty",
    "Ensemble",
    "Hypothesis",
    "Scorable",
    "Searchable",
    "Sentences",
    "Show",
    "length_penalty",
    "score_pairs",
    "search",
]
