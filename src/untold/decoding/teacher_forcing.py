"""Teacher forcing: score given translations in one pass over all positions, without a search."""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from untold.corpus.batching import Batch
from untold.decoding.interface import NOT_NUMBERS, Hypothesis, Scorable
from untold.decoding.penalties import CoveragePenalty, coverage_penalty, length_penalty
from untold.errors import UntoldError
from untold.models.seq2seq import Signals

__all__ = ["score_pairs", "token_log_probabilities"]

_POSITIONS = 1024  # logits of so many positions are in memory at a time


@torch.inference_mode()
def score_pairs(
    model: Scorable,
    batch: Batch,
    alpha: float,
    coverage: CoveragePenalty | None = None,
    *,
    attention: bool = False,
) -> list[Hypothesis]:
    """Scores each target as a search with these penalties would; `alpha` is the length penalty."""
    by_attention = coverage is not None and coverage.by_attention
    outputs = model(
        batch.source, batch.source_mask, batch.prefix, attention=attention or by_attention
    )
    log_probs, signals = token_log_probabilities(model, outputs, batch), outputs.signals
    bad = log_probs.isnan().any(1).nonzero().flatten().tolist()
    if bad:
        raise UntoldError(f"sentence {int(batch.indices[bad[0]]) + 1}: {NOT_NUMBERS}")
    shown = signals if attention else replace(signals, attention=None)
    found = [
        _hypothesis(batch, number, log_probs[number], shown, alpha)
        for number in range(len(log_probs))
    ]
    if coverage is None:
        return found
    covered = coverage.of_targets(signals, batch.target_mask)
    penalties = coverage_penalty(covered, batch.source_words, coverage.beta).tolist()
    pairs = zip(found, penalties, strict=True)
    return [replace(each, score=each.score + penalty) for each, penalty in pairs]


def token_log_probabilities(model: Scorable, outputs: Any, batch: Batch) -> Float[Tensor, "b t"]:
    """Computes log p of the labels; padding gets zero, and its logits are never computed."""
    real = batch.target_mask
    places = (part.split(_POSITIONS) for part in real.nonzero(as_tuple=True))
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
    shown: Signals[Tensor],
    alpha: float,
) -> Hypothesis:
    real: Bool[Tensor, " t"] = batch.target_mask[number]
    values = log_probs[real].tolist()
    source = batch.source_mask[number]
    return Hypothesis(
        tokens=tuple(batch.labels[number, real].tolist()[:-1]),
        score=sum(values) / length_penalty(float(len(values)), alpha),
        log_probability=sum(values),
        token_log_probabilities=tuple(values),
        signals=shown.map(lambda signal: signal[number, real][:, source]),
    )
