"""Loads synchronous grammars, which generate any number of sentence pairs with word alignments.

`load_grammar("en-de").sample(random.Random(7))` returns one pair. Grammars are readable files;
docs/grammars.md explains them, and those of the package lie in this directory.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

from untold.corpus.grammars.checks import expand
from untold.corpus.grammars.derivations import Sample, Sampler
from untold.corpus.grammars.grammar_reader import read_notation
from untold.corpus.grammars.notation import Notation
from untold.corpus.grammars.plain_grammar import PlainGrammar
from untold.corpus.grammars.recognition import Recognizer, count_derivations
from untold.errors import UntoldError

__all__ = ["Grammar", "Sample", "known_grammars", "load_grammar", "parse_grammar"]

_SUFFIX = ".grammar"


@dataclass(frozen=True)
class Grammar:
    """Samples from a checked grammar: every derivation that it starts can be finished."""

    name: str
    notation: Notation = field(repr=False)
    plain: PlainGrammar = field(repr=False)

    @property
    def languages(self) -> tuple[str, str]:
        """Names source and target language; they are the suffixes of the files it writes."""
        return self.notation.languages

    @property
    def entries(self) -> int:
        """Counts the lexical entries: rows of the lexicon, and rules that hold only words.

        Inflected forms do not count.
        """
        return self.notation.entries

    def sample(self, rng: random.Random) -> Sample:
        """Draws one pair within the grammar's length limits; the rng's state determines it."""
        return self._sampler.sample(rng)

    def stream(self, seed: int) -> Iterator[Sample]:
        """Yields pairs without end, also duplicates; the same seed gives the same sequence."""
        rng = random.Random(seed)
        while True:
            yield self._sampler.sample(rng)

    def derives(self, source: str, target: str) -> bool:
        """Returns True if the grammar generates this pair of tokenised sentences."""
        return self.derive(source, target) is not None

    def derive(self, source: str, target: str) -> Sample | None:
        """Aligns a pair of tokenised sentences; returns None if the grammar cannot generate it."""
        tree = self._recognizer.derive(tuple(source.split()), tuple(target.split()))
        return None if tree is None else self._sampler.read(tree)

    def count(self, max_words: int) -> int:
        """Counts derivations of at most `max_words` words a side; a pair may have several."""
        return count_derivations(self.plain, max_words)

    @cached_property
    def _sampler(self) -> Sampler:
        return Sampler(self.notation, self.plain)

    @cached_property
    def _recognizer(self) -> Recognizer:
        return Recognizer(self.notation, self.plain)


def load_grammar(name: str | Path) -> Grammar:
    """Loads a grammar of the package by its name, or a .grammar file by its path."""
    path = Path(name)
    if isinstance(name, str) and name in known_grammars():
        return _packaged(name)
    if not path.is_file():
        known = ", ".join(known_grammars())
        raise UntoldError(
            f"{name}: no such grammar; known: {known}, or the path of a {_SUFFIX} file"
        )
    try:
        return parse_grammar(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise UntoldError(f"{path}: not UTF-8 text: save it as UTF-8") from None


def parse_grammar(text: str, where: str = "grammar") -> Grammar:
    """Parses the text of a grammar; errors name it as `where`:line."""
    notation = read_notation(text, where)
    return Grammar(Path(where).stem, notation, expand(notation))


def known_grammars() -> tuple[str, ...]:
    """Lists the names of the grammars that come with the package, sorted."""
    files = (resources.files("untold.corpus") / "grammars").iterdir()
    names = (file.name for file in files)
    return tuple(sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX)))


@cache
def _packaged(name: str) -> Grammar:
    file = resources.files("untold.corpus") / "grammars" / (name + _SUFFIX)
    return parse_grammar(file.read_text(encoding="utf-8"), name + _SUFFIX)
