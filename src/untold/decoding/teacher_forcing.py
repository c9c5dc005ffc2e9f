"""What a model thinks of given translations: one pass over all positions, no search."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from untold.corpus.batching import Batch
from untold.corpus.vocabulary import EOS
from untold.decoding.coverage_penalty import CoveragePenalty, coverage_penalty
from untold.decoding.hypothesis import Hypothesis
from untold.decoding.length_penalty import length_penalty
from untold.decoding.searchable import Scorable
from untold.decoding.sentences import NOT_NUMBERS
from untold.errors import UntoldError

__all__ = ["score_pairs"]

POSITIONS = 1024  # whose logits are held at a time


@torch.inference_mode()
def score_pairs(
    model: Scorable,
    batch: Batch,
    alpha: float,
    coverage: CoveragePenalty | None = None,
    *,
    attention: bool = False,
) -> list[Hypothesis]:
    """Each target as a search with length penalty `alpha` and this coverage would report it."""
    wanted = attention or (coverage is not None and coverage.by_attention)
    outputs = model(batch.source, batch.source_mask, batch.prefix, attention=wanted)
    log_probs = _log_probs(model, outputs, batch)
    bad = log_probs.isnan().any(1).nonzero().flatten().tolist()
    if bad:
        raise UntoldError(f"sentence {int(batch.indices[bad[0]])}: {NOT_NUMBERS}")
    shown = {
        "attention": outputs.attention if attention else None,
        "assignments": outputs.assignments,
        "copying": outputs.copying,
    }
    found = [
        _hypothesis(batch, number, log_probs[number], shown, alpha)
        for number in range(len(log_probs))
    ]
    if coverage is None:
        return found
    words = batch.source_mask & (batch.source != EOS)
    covered = coverage.of_targets(outputs, batch.target_mask)
    penalties = coverage_penalty(covered, words, coverage.beta).tolist()
    pairs = zip(found, penalties, strict=True)
    return [replace(each, score=each.score + penalty) for each, penalty in pairs]


def _log_probs(model: Scorable, outputs: Any, batch: Batch) -> Float[Tensor, "b t"]:
    """Of the labels; zero at padding, whose logits are never computed."""
    real = batch.target_mask
    places = (part.split(POSITIONS) for part in real.nonzero(as_tuple=True))
    found = [
        -F.cross_entropy(
            model.scores(outputs, rows, steps).float(), batch.labels[rows, steps], reduction="none"
        )
        for rows, steps in zip(*places, strict=True)
    ]
    return torch.zeros(real.shape, device=real.device).masked_scatter(real, torch.cat(found))


def _hypothesis(
    batch: Batch,
    number: int,
    log_probs: Float[Tensor, " t"],
    shown: Mapping[str, Tensor | None],
    alpha: float,
) -> Hypothesis:
    real: Bool[Tensor, " t"] = batch.target_mask[number]
    values = log_probs[real].tolist()
    source = batch.source_mask[number]
    own = {
        name: None if values is None else values[number, real][:, source]
        for name, values in shown.items()
    }
    return Hypothesis(
        tokens=tuple(batch.labels[number, real].tolist()[:-1]),
        score=sum(values) / length_penalty(float(len(values)), alpha),
        log_probability=sum(values),
        token_log_probabilities=tuple(values),
        attention=own["attention"],
        assignments=own["assignments"],
        copying=own["copying"],
    )
