"""Word alignment behind one small interface: train on a corpus, then align any pair.

A trained aligner never changes, so that references and translations are linked by the same model.
Words that it has not seen are linked by their position. The models are thot's, which is an optional
dependency (the extra `align`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from untold.alignment.thot_models import load_thot, train_thot
from untold.alignment.word_splitting import refuse_unsegmented, splitter
from untold.config import AlignerConfig, check_section_json
from untold.corpus.alignments import Alignment
from untold.durable import new_directory, verify_directory
from untold.errors import UntoldError

__all__ = ["Aligner", "Backend", "load_aligner", "split_pairs", "train_aligner"]

Words = Sequence[str]
_CONFIG = "aligner.json"


@runtime_checkable
class Backend(Protocol):
    """A trained model of both directions. Callers leave out pairs with an empty side."""

    def links(self, pairs: Sequence[tuple[Words, Words]]) -> list[frozenset[tuple[int, int]]]:
        """Returns the links (i, j) of each pair."""
        ...

    def translates(self, source: str, target: str) -> float:
        """Returns the larger one of p(target | source) and p(source | target)."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the model into an existing directory."""
        ...


@dataclass(frozen=True)
class Aligner:
    """A frozen aligner: the links of a pair depend on this pair alone."""

    config: AlignerConfig
    backend: Backend

    @classmethod
    def train(
        cls,
        pairs: Sequence[tuple[Words, Words]],
        config: AlignerConfig,
        report: Callable[[int, int], object] | None = None,
    ) -> "Aligner":
        """Trains on pairs of word lists and skips those with an empty side.

        `report` is called with the number of iterations that are done and of all.
        """
        _refuse_blanks(pairs)
        whole = [pair for pair in pairs if all(pair)]
        if not whole:
            raise UntoldError(
                f"no words to learn alignment from in {len(pairs)} pairs: give two files with text"
            )
        return cls(config, train_thot(config, whole, report))

    def align(self, pairs: Sequence[tuple[Words, Words]]) -> list[Alignment]:
        """Links the words of each pair. All links are sure; an empty side has none."""
        _refuse_blanks(pairs)
        found = iter(self.backend.links([pair for pair in pairs if all(pair)]))
        links = (next(found) if all(pair) else frozenset() for pair in pairs)
        return [Alignment(each, each) for each in links]

    def align_translations(self, pairs: Sequence[tuple[Words, Words]]) -> list[Alignment]:
        """Links only words that are equal or known as translations of one another.

        The other links join words that are left over; any text of the right length has them.
        """
        found = []
        for (source, target), alignment in zip(pairs, self.align(pairs), strict=True):
            kept = frozenset(
                (i, j) for i, j in alignment.sure if self._is_translation(source[i], target[j])
            )
            found.append(Alignment(kept, kept))
        return found

    def split(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[Words, Words]]:
        """Splits pairs of texts into words as the configuration says."""
        return split_pairs(self.config, sources, targets)

    def save(self, path: Path) -> None:
        """Writes a directory that `load_aligner` reads. It appears whole or not at all."""
        with new_directory(path) as folder:
            (folder / _CONFIG).write_text(self.config.model_dump_json(), encoding="utf-8")
            self.backend.save(folder)

    def _is_translation(self, source: str, target: str) -> bool:
        same = source.lower() == target.lower()
        return same or self.backend.translates(source, target) >= self.config.evidence


def split_pairs(
    config: AlignerConfig, sources: Sequence[str], targets: Sequence[str]
) -> list[tuple[Words, Words]]:
    """Splits parallel lines into words as a configuration says."""
    of_source, of_target = splitter(config.source_words), splitter(config.target_words)
    return [(of_source(s), of_target(t)) for s, t in zip(sources, targets, strict=True)]


def train_aligner(
    sources: Sequence[str],
    targets: Sequence[str],
    config: AlignerConfig,
    report: Callable[[int, int], object] | None = None,
) -> Aligner:
    """Splits parallel lines into words and trains an aligner on them; see `Aligner.train`."""
    refuse_unsegmented(sources, config.source_words, "source")
    refuse_unsegmented(targets, config.target_words, "target")
    return Aligner.train(split_pairs(config, sources, targets), config, report)


def load_aligner(path: Path) -> Aligner:
    """Loads an aligner from the directory that `Aligner.save` wrote."""
    if not (path / _CONFIG).is_file():
        raise UntoldError(f"{path}: no aligner there: make one with untold align --save {path}")
    verify_directory(path)
    file = path / _CONFIG
    config = check_section_json(AlignerConfig, file.read_bytes(), str(file))
    return Aligner(config, load_thot(config, path))


def _refuse_blanks(pairs: Sequence[tuple[Words, Words]]) -> None:
    for pair in pairs:
        for words in pair:
            if " ".join(words).split() != list(words):
                raise UntoldError(
                    f"{list(words)[:20]} holds an empty word or one with a blank in it: split it"
                )
