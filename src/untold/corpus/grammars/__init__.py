"""Generates aligned sentence pairs from synchronous grammars; two grammars come with the package.

`grammar` is the entry point. `grammar_reader` and `rule_parser` read a .grammar file into the
values of `notation`. `rule_index`, `expansion`, `plain_grammar` and `checks` turn its rules with
features into a plain grammar. `derivations` samples pairs from it, `recognition` finds the
derivation of a given pair, `splits` writes train, dev and test files, and `noise` deletes clauses
from references.
"""

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
