"""Thot's alignment models in both directions. No other module imports thot."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from untold.config import AlignerConfig
from untold.errors import UntoldError

__all__ = ["ThotModels", "import_thot", "load_thot", "train_thot"]

Words = Sequence[str]
Links = frozenset[tuple[int, int]]

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
