"""The continuations of hypotheses that a search keeps: a top-k over beams and tokens.

Ties go to the lower beam, then to the lower token id.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

__all__ = ["COLUMN", "Candidates", "best_candidates", "best_tokens"]

COLUMN = 16  # measured: the height at which a large vocabulary is searched fastest


@dataclass(frozen=True)
class Candidates:
    """Continuations of the beams of each sentence, best first; a score of -inf is no candidate."""

    scores: Float64[Tensor, "b m"]  # log-probability of the whole hypothesis
    log_probs: Float[Tensor, "b m"]  # log-probability of its last token
    beams: Int[Tensor, "b m"]  # which hypothesis it continues
    tokens: Int[Tensor, "b m"]  # padding where it is no candidate

    def select(self, rows: Int[Tensor, " r"]) -> "Candidates":
        """Keep the sentences at `rows`, without columns that hold no candidate of theirs."""
        scores = self.scores[rows]
        width = int((scores > -torch.inf).any(0).sum())
        return Candidates(
            scores[:, :width],
            self.log_probs[rows, :width],
            self.beams[rows, :width],
            self.tokens[rows, :width],
        )

    def without(self, gone: Bool[Tensor, "b m"], pad: int) -> "Candidates":
        """Remove those that are `gone`; the others keep their order and come first."""
        scores = self.scores.masked_fill(gone, -torch.inf)
        order = (scores == -torch.inf).byte().sort(dim=1, stable=True).indices
        return Candidates(
            scores.gather(1, order),
            self.log_probs.gather(1, order),
            self.beams.gather(1, order),
            self.tokens.masked_fill(gone, pad).gather(1, order),
        )


def best_candidates(
    log_probs: Float[Tensor, "b n v"],
    scores: Float64[Tensor, "b n"],
    room: Int[Tensor, " b"],
    pad: int,
) -> Candidates:
    """Find the best continuations of all beams, as many as each sentence has `room` for."""
    most = int(room.max())
    values, tokens = best_tokens(log_probs, most)
    totals = (scores[..., None] + values).flatten(1)
    totals, order = totals.sort(dim=1, descending=True, stable=True)
    totals, order = totals[:, :most], order[:, :most]
    beyond = torch.arange(totals.shape[1], device=room.device) >= room[:, None]
    totals = totals.masked_fill(beyond, -torch.inf)
    return Candidates(
        totals,
        values.flatten(1).gather(1, order),
        order // values.shape[-1],
        tokens.flatten(1).gather(1, order).masked_fill(totals == -torch.inf, pad),
    )


def best_tokens(
    log_probs: Float[Tensor, "b n v"], count: int
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "b n k"]]:
    """Find the best tokens of each row and sort them by id; of equals the lower ids win."""
    count = min(count, log_probs.shape[-1])
    values, tokens = _top(log_probs, min(count + 1, log_probs.shape[-1]))
    if values.shape[-1] > count:
        last, next_best = values[..., count - 1], values[..., count]
        tied = (last == next_best) & (last > -torch.inf)
        values, tokens = values[..., :count], tokens[..., :count]
        if bool(tied.any()):  # topk returns any of the tied tokens
            tokens = tokens.clone()
            by_id = log_probs[tied].sort(descending=True, stable=True).indices
            tokens[tied] = by_id[:, :count]
    tokens = tokens.sort(-1).values
    return log_probs.gather(-1, tokens), tokens


def _top(
    log_probs: Float[Tensor, "b n v"], count: int
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "b n k"]]:
    """Compute topk in less time: the best `count` lie in the columns with the best maxima.

    The vocabulary is written as rows of `width` ids under each other; the ids that are left over
    are added at the end. Maxima over columns run at the speed of memory, which topk does not.
    """
    width = log_probs.shape[-1] // COLUMN
    if width < COLUMN * count:
        return log_probs.topk(count)
    table = log_probs[..., : COLUMN * width].unflatten(-1, (COLUMN, width))
    columns = table.amax(-2).topk(count, sorted=False).indices
    starts = torch.arange(0, COLUMN * width, width, device=log_probs.device)
    rest = torch.arange(COLUMN * width, log_probs.shape[-1], device=log_probs.device)
    tokens = (columns[..., None] + starts).flatten(-2)
    tokens = torch.cat([tokens, rest.expand(*tokens.shape[:-1], -1)], dim=-1)
    values, places = log_probs.gather(-1, tokens).topk(count)
    return values, tokens.gather(-1, places)
