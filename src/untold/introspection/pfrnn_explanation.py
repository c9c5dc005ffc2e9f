"""Explains a translation of a PFRNN without a separator by the states of its two layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from untold.config import DataConfig
from untold.errors import UntoldError
from untold.introspection.copies import Copy, copied_words, copy_records, find_copies
from untold.introspection.pfrnn_states import PfrnnStates, states_of_pieces
from untold.introspection.sentence_sides import Side, side_records, sides_of
from untold.translator import Translation, Translator

__all__ = ["PfrnnExplanation", "explain_pfrnn"]


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class PfrnnExplanation:
    """The states of the past and future layers after each target piece and, last, after EOS."""

    kind: ClassVar[str] = "pfrnn"

    source: Side
    target: Side
    pfrnn: PfrnnStates
    score: float
    log_probability: float
    given: bool = False  # the user gave the target; the model did not search for it
    copying: Float[np.ndarray, "t i"] | None = None  # how much of each word was copied from where
    copies: tuple[Copy, ...] = ()  # the target words that were copied

    def as_record(self) -> dict[str, Any]:
        """Converts all fields for JSON, in the layout of docs/explain.md."""
        return {
            **side_records(self.source, self.target, given=self.given),
            "score": self.score,
            "log_probability": self.log_probability,
            **copy_records(self.copying, self.copies),
            "layers": self.pfrnn.as_record(),
        }


def explain_pfrnn(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[PfrnnExplanation]:
    """Explains the model's own translation of each source, or the given targets."""
    if targets:
        translations = translator.score(list(zip(sources, targets, strict=True)))
    else:
        translations = list(translator.stream(sources, copying=True))
        for source, translation in zip(sources, translations, strict=True):
            _refuse_long_text(source, translation, translator.data)
    pairs = [(each.source_tokens, each.tokens) for each in translations]
    states = states_of_pieces(translator.models[0], pairs)
    return [
        PfrnnExplanation(
            *sides_of(translation, source, translator.data),
            own,
            translation.score,
            translation.log_probability,
            bool(targets),
            copied_words(translation),
            find_copies(translation),
        )
        for source, translation, own in zip(sources, translations, states, strict=True)
    ]


def _refuse_long_text(source: str, translation: Translation, data: DataConfig) -> None:
    """Refuses a text that was translated in stretches: the model never saw it as a whole."""
    if len(translation.source_tokens) > data.max_tokens:
        raise UntoldError(
            f"{source[:40]!r} has {len(translation.source_tokens)} pieces and is translated in "
            f"stretches: explain a text of at most {data.max_tokens} (data.max_tokens)"
        )
