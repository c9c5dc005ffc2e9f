"""Synchronous grammars: an engine, and the two that come with the package as readable files."""

from untold.corpus.grammars.grammar import (
    Grammar,
    Sample,
    known_grammars,
    load_grammar,
    parse_grammar,
)
from untold.corpus.grammars.splits import SampleReport, write_sample

__all__ = [
    "Grammar",
    "Sample",
    "SampleReport",
    "known_grammars",
    "load_grammar",
    "parse_grammar",
    "write_sample",
]
