"""The way back from a finished hypothesis to the start, and all that was seen along it.

A search only ever appends here: nothing is reordered when beams change places. Row r of step s came
from row parents[r] of step s-1, also where sentences have left the batch, so that one walk back
over the steps recovers any number of hypotheses at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["NOTHING", "Paths", "Show", "Trace"]


@dataclass(frozen=True)
class Show:
    """What a search is to bring back of the model's thoughts, beside its hypotheses."""

    attention: bool = False
    assignments: bool = False
    copying: bool = False


NOTHING = Show()


@dataclass(frozen=True)
class Paths:
    """Hypotheses f from their first token on; beyond the end of one the values mean nothing."""

    tokens: Int[Tensor, "f t"]
    log_probs: Float[Tensor, "f t"]
    shown: Mapping[str, Tensor]  # (f, t+1, ...): what the model showed at every step


@dataclass(frozen=True)
class _Arrival:
    """How the rows of one step came about."""

    parents: Int[Tensor, " r"]
    tokens: Int[Tensor, " r"]
    log_probs: Float[Tensor, " r"]


class Trace:
    """Grows by one `show` and one `advance` a step."""

    def __init__(self, start: Int[Tensor, " r"]) -> None:
        """`start`: what the first step reads, BOS for every row."""
        nothing = torch.zeros(start.shape, device=start.device)
        self._arrivals = [_Arrival(torch.zeros_like(start), start, nothing)]
        self._shown: list[Mapping[str, Tensor]] = []

    @property
    def length(self) -> int:
        """The number of tokens that the hypotheses of now have."""
        return len(self._arrivals) - 1

    def show(self, shown: Mapping[str, Tensor]) -> None:
        """Keep tensors (r, ...) of the rows of now: attention weights, say."""
        self._shown.append(shown)

    def advance(
        self,
        parents: Int[Tensor, " r"],
        tokens: Int[Tensor, " r"],
        log_probs: Float[Tensor, " r"],
    ) -> None:
        """The rows of the next step: where each comes from and what it adds."""
        self._arrivals.append(_Arrival(parents, tokens, log_probs))

    def follow(self, steps: Int[Tensor, " f"], rows: Int[Tensor, " f"]) -> Paths:
        """The paths that end at `rows`, each of its own step."""
        at = self._ancestry(steps, rows)
        names = self._shown[0] if self._shown else {}
        return Paths(
            _along([arrival.tokens for arrival in self._arrivals], at)[:, 1:],
            _along([arrival.log_probs for arrival in self._arrivals], at)[:, 1:],
            {name: _along([shown[name] for shown in self._shown], at) for name in names},
        )

    def history(self) -> Int[Tensor, "r t"]:
        """The tokens of all rows of now."""
        rows = torch.arange(len(self._arrivals[-1].tokens), device=self._arrivals[-1].tokens.device)
        at = self._ancestry(torch.full_like(rows, self.length), rows)
        return _along([arrival.tokens for arrival in self._arrivals], at)[:, 1:]

    def _ancestry(self, steps: Int[Tensor, " f"], rows: Int[Tensor, " f"]) -> Int[Tensor, "s f"]:
        """The row of every path at every step. A path yet to be joined walks beside, from row 0."""
        at, here = [], torch.zeros_like(rows)
        for step in range(int(steps.max()), -1, -1):
            here = torch.where(steps == step, rows, here)
            at.append(here)
            here = self._arrivals[step].parents[here]
        return torch.stack(at[::-1])


def _along(series: Sequence[Tensor], at: Int[Tensor, "s f"]) -> Tensor:
    """The values that each path met, (f, s, ...)."""
    return torch.stack([values[rows] for values, rows in zip(series, at, strict=False)], dim=1)
