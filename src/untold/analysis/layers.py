"""What past and future layers (PFRNN) hold while a translation is read: a trace of their states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from untold.corpus.batches import collate
from untold.errors import UntoldError
from untold.models.files import TrainedModel

__all__ = ["LayerTrace", "trace_layers"]

_END = "(end)"  # what is shown in place of a piece for the end of the target


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

    def as_record(self) -> dict[str, Any]:
        """For JSON: how long the states are, in place of the states."""
        norms = {
            f"{name}_norms": np.linalg.norm(states, axis=1).astype(np.float64).round(6).tolist()
            for name, states in (("past", self.past), ("future", self.future))
        }
        words = {"pieces": self.pieces, "added": self.added, "taken": self.taken}
        return {name: list(values) for name, values in words.items()} | norms


@torch.inference_mode()
def trace_layers(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> list[LayerTrace]:
    """Of each source and its given translation; one that the model found is as good as any."""
    if not trained.model.backbone.has_timeline:
        raise UntoldError(
            f"the backbone {trained.config.model.backbone} has no past and future layers: train "
            'one with model.backbone = "pfrnn"'
        )
    return [_trace(trained, pair) for pair in pairs]


def _trace(trained: TrainedModel, pair: tuple[str, str]) -> LayerTrace:
    model, tokenizers = trained.model, trained.tokenizers
    if trained.config.data.lowercase:
        pair = pair[0].lower(), pair[1].lower()
    source, target = tokenizers.source.encode([pair[0]])[0], tokenizers.target.encode([pair[1]])[0]
    batch = collate([(source, target)], [0]).to(next(model.parameters()).device)
    timeline = model(batch.source, batch.source_mask, batch.prefix).timeline
    past, future = timeline.after[0].float().cpu().numpy().transpose(1, 0, 2)
    guesses = model.backbone.guesses(timeline)
    best = {name: model.logits(guess[0]).argmax(-1).tolist() for name, guess in guesses.items()}
    shown = {name: tuple(tokenizers.target.pieces(ids)) for name, ids in best.items()}
    pieces = (*tokenizers.target.pieces(target), _END)
    return LayerTrace(pieces, past, future, shown["past"], shown["future"])
