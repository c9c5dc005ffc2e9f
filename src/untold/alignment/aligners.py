"""Word alignment behind one small interface: train on a corpus, then align any pair.

A trained aligner never changes, so that references and translations are linked by the same model.
Words that it has not seen are linked by their position. The models are thot's, in both directions;
thot is an optional dependency (the extra `align`), and no other module imports it.

Text is split into the words that alignments link in one of four ways:

blank      splits at blanks, for text that is tokenised
word       also separates punctuation, for plain text
character  also separates every character of scripts that are written without blanks
jieba      splits Chinese into words by rjieba (the extra `zh`)
"""

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from untold.config import AlignerConfig, Splitting, check_section_json
from untold.corpus.alignments import Alignment
from untold.corpus.words import UNSPACED
from untold.errors import UntoldError
from untold.files import new_directory, verify_directory

Words = Sequence[str]
Links = frozenset[tuple[int, int]]

_CONFIG = "aligner.json"
# Each model is initialised from the one before it.
_STAGES = {
    "eflomal": ("EflomalAlignmentModel",),
    "fast_align": ("FastAlignModel",),
    "hmm": ("Ibm1AlignmentModel", "HmmAlignmentModel"),
    "ibm1": ("Ibm1AlignmentModel",),
    "ibm2": ("Ibm1AlignmentModel", "Ibm2AlignmentModel"),
    "ibm4": ("Ibm1AlignmentModel", "HmmAlignmentModel", "Ibm3AlignmentModel", "Ibm4AlignmentModel"),
}
_FILES = ("forward", "backward")
_PAIRS_AT_ONCE = 500  # that thot aligns before Python can do anything else, such as heed a signal
_WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")
_CHARACTER = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)+|[^\w\s]")
_LONGEST = 6  # mean characters per word; segmented Chinese has about 2, Thai 4


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
        linked = iter(self.backend.links([pair for pair in pairs if all(pair)]))
        sets = [next(linked) if all(pair) else frozenset() for pair in pairs]
        return [Alignment(links, links) for links in sets]

    def align_translations(self, pairs: Sequence[tuple[Words, Words]]) -> list[Alignment]:
        """Links only words that are equal or known as translations of one another.

        The other links join words that are left over; any text of the right length has them.
        """
        alignments = []
        for (source, target), alignment in zip(pairs, self.align(pairs), strict=True):
            links = frozenset(
                (i, j) for i, j in alignment.sure if self._is_translation(source[i], target[j])
            )
            alignments.append(Alignment(links, links))
        return alignments

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


def splitter(splitting: Splitting) -> Callable[[str], list[str]]:
    """Returns a function that splits a text; no word is empty or contains a blank."""
    ways: dict[Splitting, Callable[[], Callable[[str], list[str]]]] = {
        "blank": lambda: str.split,
        "word": lambda: _WORD.findall,
        "character": lambda: _CHARACTER.findall,
        "jieba": _jieba,
    }
    return ways[splitting]()


def refuse_unsegmented(texts: Sequence[str], splitting: Splitting, side: str) -> None:
    """Refuses text without blanks, such as Chinese, which would be one long word a sentence."""
    if splitting not in ("blank", "word"):
        return
    if looks_unsegmented(texts):
        raise UntoldError(
            f"the {side} side has {_mean_length(texts):.0f} characters to a word, as if written "
            f"without blanks: choose jieba or character as its words, not {splitting}"
        )


def looks_unsegmented(texts: Sequence[str]) -> bool:
    """Tells if words of scripts such as Chinese are too long to be words."""
    return _mean_length(texts) > _LONGEST


def _mean_length(texts: Sequence[str]) -> float:
    """Returns the mean length of the words that have characters of a script without blanks."""
    characters = sum(len(UNSPACED.findall(text)) for text in texts)
    words = sum(1 for text in texts for word in text.split() if UNSPACED.search(word))
    return characters / words if words else 0.0


def _jieba() -> Callable[[str], list[str]]:
    try:
        rjieba = importlib.import_module("rjieba")
    except ImportError:
        raise UntoldError("words by jieba need rjieba: pip install 'untold[zh]'") from None
    return lambda text: [word for part in text.split() for word in rjieba.cut(part)]


class ThotModels:
    """A model for each direction; grow-diag-final-and joins their links."""

    def __init__(self, forward: Any, backward: Any) -> None:
        thot = import_thot()
        self._models = forward, backward
        self._aligner = thot.SymmetrizedAligner(forward, backward)
        self._aligner.heuristic = thot.SymmetrizationHeuristic.GROW_DIAG_FINAL_AND

    def links(self, pairs: Sequence[tuple[Words, Words]]) -> list[Links]:
        """Returns the links of each pair; no side may be empty."""
        sources, targets = [_guarded(s) for s, _ in pairs], [_guarded(t) for _, t in pairs]
        links: list[Links] = []
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            some = slice(first, first + _PAIRS_AT_ONCE)
            for _, matrix in self._aligner.get_best_alignments(sources[some], targets[some]):
                links.append(frozenset((i, j) for i, j in np.argwhere(matrix.to_numpy()).tolist()))
        return links

    def translates(self, source: str, target: str) -> float:
        """Returns the larger one of p(target | source) and p(source | target), 0 if unknown."""
        forward, backward = self._models
        one, other = _guarded([source, target])
        return max(_probability(forward, one, other), _probability(backward, other, one))

    def save(self, folder: Path) -> None:
        """Writes the files that `load_thot` reads."""
        for model, name in zip(self._models, _FILES, strict=True):
            if not model.print(str(folder / name)):
                raise UntoldError(f"{folder / name}: thot could not write its model")


def train_thot(
    config: AlignerConfig,
    pairs: Sequence[tuple[Words, Words]],
    report: Callable[[int, int], object] | None = None,
) -> ThotModels:
    """Trains both directions on pairs without an empty side.

    `report` is called with the number of iterations that are done and of all.
    """
    guarded = [(_guarded(source), _guarded(target)) for source, target in pairs]
    backward = [(target, source) for source, target in guarded]
    done = 0

    def count(of_one_direction: int) -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, 2 * of_one_direction)

    return ThotModels(_train(config, guarded, count), _train(config, backward, count))


def load_thot(config: AlignerConfig, folder: Path) -> ThotModels:
    """Loads the files that `ThotModels.save` wrote."""
    models = []
    for name in _FILES:
        model = getattr(import_thot(), _STAGES[config.kind][-1])()
        _prepare(model, config)
        try:
            is_loaded = model.load(str(folder / name))
        except (RuntimeError, ValueError):  # of its own parsers
            is_loaded = False
        if not is_loaded:
            raise UntoldError(f"{folder / name}: thot could not read its model: train it again")
        models.append(model)
    return ThotModels(*models)


def _train(
    config: AlignerConfig, pairs: Sequence[tuple[Words, Words]], count: Callable[[int], None]
) -> Any:
    """Trains one direction; tells `count` after each iteration how many it has in all."""
    model: Any = None
    stages = _STAGES[config.kind]
    for name in stages:
        kind = getattr(import_thot(), name)
        if model is None:
            model = kind()
            for source, target in pairs:
                model.add_sentence_pair(source, target)
        else:
            model = kind(model)
        _prepare(model, config)
        model.start_training()
        eflomal = config.kind == "eflomal"
        iterations = model.scheduled_iterations if eflomal else config.iterations
        for _ in range(iterations):
            model.train()
            count(iterations * len(stages))
        model.end_training()
    return model


def _prepare(model: Any, config: AlignerConfig) -> None:
    if config.kind == "eflomal":
        model.seed, model.deterministic = config.seed, True


def _probability(model: Any, source: str, target: str) -> float:
    """Returns p(target | source), and 0 for unknown words, where thot has p of its <unk>."""
    if not (model.src_word_exists(source) and model.trg_word_exists(target)):
        return 0.0
    return model.translation_prob(
        model.get_src_word_index(source), model.get_trg_word_index(target)
    )


def _guarded(words: Words) -> list[str]:
    """Lower-cases words and prefixes them, so that none equals a word that thot reserves."""
    return [f"={word.lower()}" for word in words]


def import_thot() -> ModuleType:
    """Returns thot's models of alignment; says how to install them if they are missing."""
    try:
        return importlib.import_module("thot.alignment")
    except ImportError:
        raise UntoldError("word alignment needs sil-thot: pip install 'untold[align]'") from None
