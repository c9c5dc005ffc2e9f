"""What past and future layers (PFRNN) hold while a translation is read: a trace of their states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from untold.corpus.batching import collate
from untold.corpus.vocabulary import EOS
from untold.errors import UntoldError
from untold.introspection.sentence_sides import END
from untold.models.backbone import as_inspectable
from untold.storage.model_directory import TrainedModel

__all__ = ["LayerTrace", "trace_layers", "trace_pieces"]


@dataclass(frozen=True, eq=False)  # arrays have no truth value that could make two of them equal
class LayerTrace:
    """Both layers after each target piece and, last, after the end."""

    pieces: tuple[str, ...]
    past: Float[np.ndarray, "t h"]
    future: Float[np.ndarray, "t h"]
    # The pieces that the layers' losses find likeliest: what a step added to the past and took from
    # the future. In a trained model they are the pieces themselves.
    added: tuple[str, ...]
    taken: tuple[str, ...]

    def norms(self) -> dict[str, Float[np.ndarray, " t"]]:
        """How long the states of each layer are."""
        return {name: np.linalg.norm(states, axis=1) for name, states in self._layers().items()}

    def cosines(self) -> dict[str, Float[np.ndarray, "t t"]]:
        """How alike the states of each layer are, one after another; 0 where one has no length."""
        found = {}
        for name, states in self._layers().items():
            lengths = np.linalg.norm(states, axis=1, keepdims=True)
            units = states / np.where(lengths > 0, lengths, 1)
            found[name] = units @ units.T
        return found

    def as_record(self) -> dict[str, Any]:
        """For JSON: how long and how alike the states are, in place of the states."""
        words = {"pieces": self.pieces, "added": self.added, "taken": self.taken}
        record: dict[str, Any] = {name: list(values) for name, values in words.items()}
        for kind, figures in (("norms", self.norms()), ("cosines", self.cosines())):
            for name, values in figures.items():
                record[f"{name}_{kind}"] = values.astype(np.float64).round(6).tolist()
        return record

    def _layers(self) -> dict[str, Float[np.ndarray, "t h"]]:
        return {"past": self.past, "future": self.future}


def trace_layers(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> list[LayerTrace]:
    """Of each source and its given translation, as the tokenizers cut them."""
    if trained.config.data.lowercase:
        pairs = [(source.lower(), target.lower()) for source, target in pairs]
    sources = trained.tokenizers.source.encode([source for source, _ in pairs])
    targets = trained.tokenizers.target.encode([target for _, target in pairs])
    return _traces(trained, list(zip(sources, targets, strict=True)))


def trace_pieces(
    trained: TrainedModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[LayerTrace]:
    """Of each source and its translation in pieces: a model may cut words as no tokenizer would."""
    of_source, of_target = trained.tokenizers.source.ids, trained.tokenizers.target.ids
    return _traces(trained, [(of_source(source), of_target(target)) for source, target in pairs])


@torch.inference_mode()
def _traces(
    trained: TrainedModel, pairs: Sequence[tuple[list[int], list[int]]]
) -> list[LayerTrace]:
    if as_inspectable(trained.model.backbone) is None:
        raise UntoldError(
            f"the backbone {trained.config.model.backbone} has no past and future layers: train "
            'one with model.backbone = "pfrnn"'
        )
    return [_trace(trained, source, target) for source, target in pairs]


def _trace(trained: TrainedModel, source: list[int], target: list[int]) -> LayerTrace:
    model = trained.model
    batch = collate([(source, target)], [0]).to(next(model.parameters()).device)
    timeline = model(batch.source, batch.source_mask, batch.prefix).inner_states
    past, future = timeline.after[0].float().cpu().numpy().transpose(1, 0, 2)
    backbone = as_inspectable(model.backbone)
    guesses = {} if backbone is None else backbone.guesses(timeline)
    best = {name: model.logits(guess[0]).argmax(-1).tolist() for name, guess in guesses.items()}
    pieces, added, taken = (
        _shown(trained, ids) for ids in ([*target, EOS], best["past"], best["future"])
    )
    return LayerTrace(pieces, past, future, added, taken)


def _shown(trained: TrainedModel, ids: list[int]) -> tuple[str, ...]:
    pieces = trained.tokenizers.target.pieces(ids)
    return tuple(END if i == EOS else piece for i, piece in zip(ids, pieces, strict=True))
