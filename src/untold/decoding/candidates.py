"""Which continuations are worth keeping. Ties go to the lower beam, then to the lower token id."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from untold.corpus.vocabulary import EOS, PAD

__all__ = ["Candidates", "best_candidates", "best_tokens", "split_ends"]

COLUMN = 16  # measured: the height at which a large vocabulary is searched fastest


@dataclass(frozen=True)
class Candidates:
    """Continuations of the beams of each sentence, best first; a score of -inf is no candidate."""

    scores: Float64[Tensor, "b m"]  # log-probability of the whole hypothesis
    log_probs: Float[Tensor, "b m"]  # of its last token
    beams: Int[Tensor, "b m"]  # which hypothesis it continues
    tokens: Int[Tensor, "b m"]  # PAD where it is no candidate

    def select(self, rows: Int[Tensor, " r"]) -> "Candidates":
        """Those of the sentences at `rows`."""
        if len(rows) == len(self.scores):  # rows ascend, so it is all of them
            return self
        return Candidates(
            self.scores[rows], self.log_probs[rows], self.beams[rows], self.tokens[rows]
        )

    def gather(self, places: Int[Tensor, "b k"]) -> "Candidates":
        """Those at `places` of each sentence."""
        return Candidates(
            self.scores.gather(1, places),
            self.log_probs.gather(1, places),
            self.beams.gather(1, places),
            self.tokens.gather(1, places),
        )


def best_candidates(
    log_probs: Float[Tensor, "b n v"], scores: Float64[Tensor, "b n"], beam: int
) -> Candidates:
    """The best 2 `beam` of all continuations: one EOS a beam at most, so `beam` others at least."""
    values, tokens = best_tokens(log_probs, beam + 1)
    width = values.shape[-1]
    totals = scores[..., None] + values
    totals, order = totals.flatten(1).sort(dim=1, descending=True, stable=True)
    totals, order = totals[:, : 2 * beam], order[:, : 2 * beam]
    found = Candidates(
        totals,
        values.flatten(1).gather(1, order),
        order // width,
        tokens.flatten(1).gather(1, order).masked_fill(totals == -torch.inf, PAD),
    )
    return _widened(found, 2 * beam)


def split_ends(candidates: Candidates, beam: int) -> tuple[Bool[Tensor, "b m"], Candidates]:
    """(which of the candidates end among the best `beam`, the best `beam` that go on)."""
    is_end = candidates.tokens == EOS
    going_on = is_end.byte().sort(dim=1, stable=True).indices[:, :beam]
    ends = is_end & (candidates.scores > -torch.inf)
    ends[:, beam:] = False
    return ends, candidates.gather(going_on)


def best_tokens(
    log_probs: Float[Tensor, "b n v"], count: int
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "b n k"]]:
    """The best tokens of each row in the order of their ids; of equals the lower ids."""
    count = min(count, log_probs.shape[-1])
    values, tokens = _top(log_probs, min(count + 1, log_probs.shape[-1]))
    if values.shape[-1] > count:
        last, next_best = values[..., count - 1], values[..., count]
        tied = (last == next_best) & (last > -torch.inf)
        values, tokens = values[..., :count], tokens[..., :count]
        if bool(tied.any()):  # topk takes any of them
            tokens = tokens.clone()
            by_id = log_probs[tied].sort(descending=True, stable=True).indices
            tokens[tied] = by_id[:, :count]
    tokens = tokens.sort(-1).values
    return log_probs.gather(-1, tokens), tokens


def _top(
    log_probs: Float[Tensor, "b n v"], count: int
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "b n k"]]:
    """topk in less time: the best `count` lie in the `count` columns whose maxima are the best.

    The vocabulary is written as rows of `width` ids under each other; what is left over joins at
    the end. Maxima down columns run at the speed of memory, which topk does not.
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


def _widened(candidates: Candidates, width: int) -> Candidates:
    """Filled up with what is no candidate, where there are fewer."""
    missing = (0, width - candidates.scores.shape[1])
    if not missing[1]:
        return candidates
    pad = torch.nn.functional.pad
    return Candidates(
        pad(candidates.scores, missing, value=-torch.inf),
        pad(candidates.log_probs, missing, value=-torch.inf),
        pad(candidates.beams, missing),
        pad(candidates.tokens, missing, value=PAD),
    )
