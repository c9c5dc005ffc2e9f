"""How a translation came about in a model with past and future layers, and no shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from untold.config import DataConfig
from untold.corpus.word_spans import display_spans, merge_copying
from untold.errors import UntoldError
from untold.introspection.copies import Copy, copy_records, find_copies
from untold.introspection.pfrnn_states import LayerTrace, trace_pieces
from untold.introspection.sentence_sides import Side, check_targets, side_records, sides_of
from untold.models.backbone import as_inspectable
from untold.translator import Translation, Translator

__all__ = ["LayerExplanation", "explain_layers", "has_layers_alone"]


@dataclass(frozen=True, eq=False)
class LayerExplanation:
    """Both layers after each target piece and, last, after the end."""

    source: Side
    target: Side
    layers: LayerTrace
    score: float
    log_probability: float
    given: bool = False  # the target was given, not found by the model
    copying: Float[np.ndarray, "t i"] | None = None  # how much of each word was copied from where
    copies: tuple[Copy, ...] = ()  # the target words that were copied

    def as_record(self) -> dict[str, Any]:
        """All of it for JSON, in the layout of docs/explain.md."""
        return {
            **side_records(self.source, self.target, given=self.given),
            "score": self.score,
            "log_probability": self.log_probability,
            **copy_records(self.copying, self.copies),
            "layers": self.layers.as_record(),
        }


def has_layers_alone(translator: Translator) -> bool:
    """Whether layers are all that there is to explain: one model, a PFRNN without a separator."""
    first, *others = (each.model for each in translator.models)
    has_layers = as_inspectable(first.backbone) is not None
    return has_layers and first.past_future is None and not others


def explain_layers(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[LayerExplanation]:
    """Of each source and the model's own translation, or of each source and its given target."""
    check_targets(sources, targets)
    if targets:
        translations = translator.score(list(zip(sources, targets, strict=True)))
    else:
        translations = list(translator.stream(sources, copying=True))
        for source, translation in zip(sources, translations, strict=True):
            _refuse_stretches(source, translation, translator.data)
    pairs = [(each.source_tokens, each.tokens) for each in translations]
    traces = trace_pieces(translator.models[0], pairs)
    return [
        LayerExplanation(
            *sides_of(translation, source, translator.data),
            trace,
            translation.score,
            translation.log_probability,
            bool(targets),
            _merged(translation),
            find_copies(translation),
        )
        for source, translation, trace in zip(sources, translations, traces, strict=True)
    ]


def _merged(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """Of words, if the model copies."""
    if translation.copying is None:
        return None
    target, source = (
        display_spans(side) for side in (translation.tokens, translation.source_tokens)
    )
    return merge_copying(translation.copying, target, source)


def _refuse_stretches(source: str, translation: Translation, data: DataConfig) -> None:
    """A text that was translated in stretches never was before the model as a whole."""
    if len(translation.source_tokens) > data.max_tokens:
        raise UntoldError(
            f"{source[:40]!r} has {len(translation.source_tokens)} pieces and is translated in "
            f"stretches: explain a text of at most {data.max_tokens} (data.max_tokens)"
        )
