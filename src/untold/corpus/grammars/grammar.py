"""Synchronous grammars: sentence pairs with their word alignment, without end and without a file.

`load_grammar("en-de").sample(random.Random(7))` is one pair. Grammars are readable files (see
docs/grammars.md); the ones that come with the package lie beside this one.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

from untold.corpus.grammars.checks import expand
from untold.corpus.grammars.derivations import Sample, Sampler
from untold.corpus.grammars.notation import Notation
from untold.corpus.grammars.plain import Plain
from untold.corpus.grammars.reader import read_notation
from untold.corpus.grammars.recognition import Recognizer, count_derivations
from untold.errors import UntoldError

__all__ = ["Grammar", "Sample", "known_grammars", "load_grammar", "parse_grammar"]

_SUFFIX = ".grammar"


@dataclass(frozen=True)
class Grammar:
    """A checked grammar, ready to sample from: every derivation it starts it can finish."""

    name: str
    notation: Notation = field(repr=False)
    plain: Plain = field(repr=False)

    @property
    def languages(self) -> tuple[str, str]:
        """The suffixes of the files it writes: source, target."""
        return self.notation.languages

    @property
    def entries(self) -> int:
        """Lexical entries: rows of the lexicon and rules of words alone, not inflected forms."""
        return self.notation.entries

    def sample(self, rng: random.Random) -> Sample:
        """One pair within the grammar's length limits on both sides; the same for the same rng."""
        return self._sampler.sample(rng)

    def stream(self, seed: int) -> Iterator[Sample]:
        """Pairs without end, duplicates among them; the same sequence for the same seed."""
        rng = random.Random(seed)
        while True:
            yield self._sampler.sample(rng)

    def derives(self, source: str, target: str) -> bool:
        """Whether the grammar has this pair of tokenised sentences."""
        return self.derive(source, target) is not None

    def derive(self, source: str, target: str) -> Sample | None:
        """This pair of tokenised sentences with its alignment; None if it is not in the grammar."""
        tree = self._recognizer.derive(tuple(source.split()), tuple(target.split()))
        return None if tree is None else self._sampler.read(tree)

    def count(self, max_words: int) -> int:
        """Derivations of at most `max_words` words a side; a pair may have more than one."""
        return count_derivations(self.plain, max_words)

    @cached_property
    def _sampler(self) -> Sampler:
        return Sampler(self.notation, self.plain)

    @cached_property
    def _recognizer(self) -> Recognizer:
        return Recognizer(self.notation, self.plain)


def load_grammar(name: str | Path) -> Grammar:
    """A grammar of the package by its name, or a file of one's own by its path."""
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
    """A grammar from its text; `where` names it in errors, as file:line."""
    notation = read_notation(text, where)
    return Grammar(Path(where).stem, notation, expand(notation))


def known_grammars() -> tuple[str, ...]:
    """The names of the grammars that come with the package, sorted."""
    files = (resources.files("untold.corpus") / "grammars").iterdir()
    names = (file.name for file in files)
    return tuple(sorted(n.removesuffix(_SUFFIX) for n in names if n.endswith(_SUFFIX)))


@cache
def _packaged(name: str) -> Grammar:
    file = resources.files("untold.corpus") / "grammars" / (name + _SUFFIX)
    return parse_grammar(file.read_text(encoding="utf-8"), name + _SUFFIX)
