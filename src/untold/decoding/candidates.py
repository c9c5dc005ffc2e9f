"""Candidates of a search: the best continuations of the hypotheses of each sentence.

Ties go to the lower beam, then to the lower token id. A sentence that is alone is ranked in plain
Python numbers, which costs less than a handful of tensor operations; many sentences are ranked in
tensors. Both give the same candidates.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.decoding.top_k import best_tokens, top

__all__ = ["Candidate", "best_candidates", "continue_with", "rank_alone", "rank_many"]


# Continues one hypothesis of a sentence: (log-probability of the whole hypothesis, the beam that it
# continues, its token, the token's log-probability). A search makes thousands: plain tuples.
Candidate = tuple[float, int, int, float]


def best_candidates(
    log_probs: Float[Tensor, "b n v"], scores: Sequence[Sequence[float]], room: Sequence[int]
) -> list[list[Candidate]]:
    """Finds the best continuations of all beams, best first, as many as a sentence has `room` for.

    A score of -inf marks a beam without a hypothesis.
    """
    if len(scores) == 1:
        alone = rank_alone(log_probs[0], scores[0], room[0])
        if alone is not None:
            return [alone]
    return rank_many(log_probs, scores, room)


def rank_alone(
    log_probs: Float[Tensor, "n v"], scores: Sequence[float], room: int
) -> list[Candidate] | None:
    """Ranks the continuations of one sentence; None if tokens at the edge of the best are tied."""
    if not room:
        return []
    if room == 1 and len(scores) == 1:  # of equal ones torch returns the first
        value, token = (part.item() for part in log_probs.max(-1))
        return [(scores[0] + value, 0, int(token), value)] if value > -math.inf else []
    values, tokens = top(log_probs, min(room + 1, log_probs.shape[-1]))
    found = []
    for beam, (score, row, ids) in enumerate(
        zip(scores, values.tolist(), tokens.tolist(), strict=True)
    ):
        if score == -math.inf:
            continue
        if len(row) > room and row[room] == row[room - 1] > -math.inf:
            return None  # torch returns any of the tied tokens
        found += [
            (-(score + value), beam, token, value)
            for value, token in zip(row[:room], ids[:room], strict=True)
            if value > -math.inf
        ]
    found.sort()
    return [(-score, beam, token, value) for score, beam, token, value in found[:room]]


def rank_many(
    log_probs: Float[Tensor, "b n v"], scores: Sequence[Sequence[float]], room: Sequence[int]
) -> list[list[Candidate]]:
    """Ranks the continuations of several sentences."""
    most = max(room)
    if not most:
        return [[] for _ in scores]
    values, tokens = best_tokens(log_probs, most)  # in the order of their ids
    before = torch.tensor(scores, dtype=torch.float64, device=log_probs.device)
    totals, order = (before[..., None] + values).flatten(1).sort(descending=True, stable=True)
    totals, order = totals[:, :most], order[:, :most]
    width = values.shape[-1]
    columns = (
        totals.tolist(),
        (order // width).tolist(),
        tokens.flatten(1).gather(1, order).tolist(),
        values.flatten(1).gather(1, order).tolist(),
    )
    found = []
    for places, *rows in zip(room, *columns, strict=True):
        own = list(zip(*rows, strict=True))[:places]
        if own and own[-1][0] == -math.inf:  # they are sorted
            own = [each for each in own if each[0] > -math.inf]
        found.append(own)
    return found


def continue_with(
    tokens: Int[Tensor, "b 1"], log_probs: Float[Tensor, "b 1 v"], scores: Sequence[Sequence[float]]
) -> list[list[Candidate]]:
    """Continues each sentence's only hypothesis with a given token."""
    values = log_probs.gather(-1, tokens[..., None]).flatten().tolist()
    chosen = tokens.flatten().tolist()
    found = zip((row[0] for row in scores), chosen, values, strict=True)
    return [[(score + value, 0, token, value)] for score, token, value in found]
