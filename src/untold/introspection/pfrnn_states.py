"""Reads the states of the past and future layers of a PFRNN while it reads a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from untold.errors import UntoldError
from untold.introspection.sentence_sides import END
from untold.models.backbone import as_inspectable
from untold.storage.model_directory import TrainedModel

__all__ = ["PfrnnStates", "has_pfrnn_states", "pfrnn_states", "states_of_pieces"]


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class PfrnnStates:
    """The states of both layers after each target piece and, last, after EOS."""

    pieces: tuple[str, ...]
    past: Float[np.ndarray, "t h"]
    future: Float[np.ndarray, "t h"]
    # The likeliest pieces by the heads of the layers' losses: the piece that a step added to the
    # past and the one that it took from the future. A well-trained model predicts the piece itself.
    added: tuple[str, ...]
    taken: tuple[str, ...]

    def norms(self) -> dict[str, Float[np.ndarray, " t"]]:
        """Returns the Euclidean norms of the states of each layer."""
        return {name: np.linalg.norm(states, axis=1) for name, states in self._by_layer().items()}

    def cosines(self) -> dict[str, Float[np.ndarray, "t t"]]:
        """Returns the cosines of all pairs of states of each layer; 0 if a state is zero."""
        found = {}
        for name, states in self._by_layer().items():
            lengths = np.linalg.norm(states, axis=1, keepdims=True)
            units = states / np.where(lengths > 0, lengths, 1)
            found[name] = units @ units.T
        return found

    def as_record(self) -> dict[str, Any]:
        """Converts the pieces, norms and cosines for JSON; the states are left out."""
        words = {"pieces": self.pieces, "added": self.added, "taken": self.taken}
        record: dict[str, Any] = {name: list(values) for name, values in words.items()}
        for kind, figures in (("norms", self.norms()), ("cosines", self.cosines())):
            for name, values in figures.items():
                record[f"{name}_{kind}"] = values.astype(np.float64).round(6).tolist()
        return record

    def _by_layer(self) -> dict[str, Float[np.ndarray, "t h"]]:
        return {"past": self.past, "future": self.future}


def has_pfrnn_states(trained: TrainedModel) -> bool:
    """Says if the backbone has past and future layers."""
    return as_inspectable(trained.model.backbone) is not None


def pfrnn_states(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> list[PfrnnStates]:
    """Reads the states for each source text and its given translation."""
    return _all_states(trained, trained.codec.encode_pairs(pairs))


def states_of_pieces(
    trained: TrainedModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[PfrnnStates]:
    """Reads the states for pairs in pieces; a search may cut words unlike the tokenizer."""
    of_source, of_target = trained.tokenizers.source.ids, trained.tokenizers.target.ids
    return _all_states(
        trained, [(of_source(source), of_target(target)) for source, target in pairs]
    )


@torch.inference_mode()
def _all_states(
    trained: TrainedModel, pairs: Sequence[tuple[list[int], list[int]]]
) -> list[PfrnnStates]:
    if not has_pfrnn_states(trained):
        raise UntoldError(
            f"the backbone {trained.config.model.backbone} has no past and future layers: train "
            'one with model.backbone = "pfrnn"'
        )
    return [_states(trained, source, target) for source, target in pairs]


def _states(trained: TrainedModel, source: list[int], target: list[int]) -> PfrnnStates:
    model = trained.model
    batch = trained.codec.batch([(source, target)], [0])
    timeline = model(batch.source, batch.source_mask, batch.prefix).inner_states
    past, future = timeline.after[0].float().cpu().numpy().transpose(1, 0, 2)
    backbone = as_inspectable(model.backbone)
    guesses = {} if backbone is None else backbone.guesses(timeline)
    best = {name: model.logits(guess[0]).argmax(-1).tolist() for name, guess in guesses.items()}
    eos = batch.special.eos
    pieces, added, taken = (
        _displayed(trained, ids) for ids in ([*target, eos], best["past"], best["future"])
    )
    return PfrnnStates(pieces, past, future, added, taken)


def _displayed(trained: TrainedModel, ids: list[int]) -> tuple[str, ...]:
    tokenizer = trained.tokenizers.target
    eos, pieces = tokenizer.special_ids.eos, tokenizer.pieces(ids)
    return tuple(END if i == eos else piece for i, piece in zip(ids, pieces, strict=True))
