"""Word alignment behind one small interface: train on a corpus, freeze, align any pair.

A trained aligner never changes, so references and translations are linked by the same model, and
words that it has not seen get links by their place. The model itself is an extra ([align]).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import ValidationError

from untold.alignment.thot_models import load_thot, train_thot
from untold.alignment.word_splitting import refuse_unsegmented, splitter
from untold.config import AlignerConfig
from untold.corpus.alignments import Alignment
from untold.durable import new_directory, verify_directory
from untold.errors import UntoldError

__all__ = ["Aligner", "Backend", "load_aligner", "train_aligner"]

Words = Sequence[str]
_CONFIG = "aligner.json"


@runtime_checkable
class Backend(Protocol):
    """A trained model of both directions; it is asked about no pair with an empty side."""

    def links(self, pairs: Sequence[tuple[Words, Words]]) -> list[frozenset[tuple[int, int]]]:
        """The links of each pair."""
        ...

    def translates(self, source: str, target: str) -> float:
        """How probable one word is as the translation of the other, in the better direction."""
        ...

    def save(self, folder: Path) -> None:
        """Write files into an existing directory."""
        ...


@dataclass(frozen=True)
class Aligner:
    """A frozen model; the links of a pair depend on nothing but the pair."""

    config: AlignerConfig
    backend: Backend

    @classmethod
    def train(cls, pairs: Sequence[tuple[Words, Words]], config: AlignerConfig) -> "Aligner":
        """Learn from pairs of word lists; those with an empty side teach nothing."""
        _refuse_blanks(pairs)
        whole = [pair for pair in pairs if all(pair)]
        if not whole:
            raise UntoldError(
                f"no words to learn alignment from in {len(pairs)} pairs: give two files with text"
            )
        return cls(config, train_thot(config, whole))

    def align(self, pairs: Sequence[tuple[Words, Words]]) -> list[Alignment]:
        """All links are sure; a pair with an empty side has none."""
        _refuse_blanks(pairs)
        found = iter(self.backend.links([pair for pair in pairs if all(pair)]))
        links = (next(found) if all(pair) else frozenset() for pair in pairs)
        return [Alignment(each, each) for each in links]

    def align_translations(self, pairs: Sequence[tuple[Words, Words]]) -> list[Alignment]:
        """Only those links whose words are equal or known to translate one another.

        The others stand where two words are left over: any text of the right length has them.
        """
        found = []
        for (source, target), alignment in zip(pairs, self.align(pairs), strict=True):
            kept = frozenset(
                (i, j) for i, j in alignment.sure if self._is_translation(source[i], target[j])
            )
            found.append(Alignment(kept, kept))
        return found

    def split(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[Words, Words]]:
        """Pairs of texts as pairs of words, in the aligner's own way."""
        of_source, of_target = self._splitters
        return [(of_source(s), of_target(t)) for s, t in zip(sources, targets, strict=True)]

    def save(self, path: Path) -> None:
        """Write a directory, whole or not at all."""
        with new_directory(path) as folder:
            (folder / _CONFIG).write_text(self.config.model_dump_json(), encoding="utf-8")
            self.backend.save(folder)

    def _is_translation(self, source: str, target: str) -> bool:
        same = source.lower() == target.lower()
        return same or self.backend.translates(source, target) >= self.config.evidence

    @cached_property
    def _splitters(self) -> tuple[Callable[[str], list[str]], Callable[[str], list[str]]]:
        return splitter(self.config.source_words), splitter(self.config.target_words)


def train_aligner(sources: Sequence[str], targets: Sequence[str], config: AlignerConfig) -> Aligner:
    """Learn from texts, line by line."""
    refuse_unsegmented(sources, config.source_words, "source")
    refuse_unsegmented(targets, config.target_words, "target")
    of_source, of_target = splitter(config.source_words), splitter(config.target_words)
    pairs = [(of_source(s), of_target(t)) for s, t in zip(sources, targets, strict=True)]
    return Aligner.train(pairs, config)


def load_aligner(path: Path) -> Aligner:
    """What Aligner.save wrote."""
    if not (path / _CONFIG).is_file():
        raise UntoldError(f"{path}: no aligner there: make one with untold align --save {path}")
    verify_directory(path)
    try:
        config = AlignerConfig.model_validate(json.loads((path / _CONFIG).read_bytes()))
    except (ValueError, ValidationError) as error:
        raise UntoldError(f"{path / _CONFIG}: {error}") from None
    return Aligner(config, load_thot(config, path))


def _refuse_blanks(pairs: Sequence[tuple[Words, Words]]) -> None:
    for pair in pairs:
        for words in pair:
            if " ".join(words).split() != list(words):
                raise UntoldError(
                    f"{list(words)[:20]} holds an empty word or one with a blank in it: split it"
                )
