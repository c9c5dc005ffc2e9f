"""Back-pointers of a search, and the best hypotheses that have finished.

A search only appends to its back-pointers; nothing is reordered when beams change places. Row r of
step s continues row parents[r] of step s-1, also when sentences have left the batch, so that one
walk back over the steps recovers any number of hypotheses at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from untold.decoding.interface import Hypothesis
from untold.models.seq2seq import NO_SIGNALS, Signals

__all__ = ["BackPointers", "End", "FinishedHypotheses", "Paths"]


class End(NamedTuple):
    """Points to the last token of a hypothesis: row `row` of step `step` of the back-pointers."""

    score: float  # with all penalties
    log_probability: float  # of the whole hypothesis
    step: int  # also the number of its tokens
    row: int
    eos_log_probability: float | None = None  # None: EOS is yet to come
    by_itself: bool = False  # the model chose EOS, below the length limit


@dataclass(frozen=True)
class Paths:
    """Holds hypotheses f from their first token on; values beyond the end of one mean nothing."""

    tokens: Int[Tensor, "f t"]
    log_probs: Float[Tensor, "f t"]
    signals: Signals[Tensor]  # (f, s, ...): what the model showed at each step


class BackPointers:
    """Records for every step where its rows come from and which tokens they add."""

    def __init__(self, start: Int[Tensor, " r"]) -> None:
        """Begins with the tokens that the first step reads: BOS for every row."""
        self._parents = [torch.zeros_like(start)]
        self._tokens = [start]
        self._log_probs = [torch.zeros(start.shape, device=start.device)]
        self._signals: list[Signals[Tensor]] = []

    def show(self, signals: Signals[Tensor]) -> None:
        """Records the signals (r, ...) of the current rows."""
        self._signals.append(signals)

    def append(
        self,
        parents: Int[Tensor, " r"],
        tokens: Int[Tensor, " r"],
        log_probs: Float[Tensor, " r"],
    ) -> None:
        """Adds the rows of the next step: which row each continues, and its token."""
        self._parents.append(parents)
        self._tokens.append(tokens)
        self._log_probs.append(log_probs)

    def follow(self, steps: Int[Tensor, " f"], rows: Int[Tensor, " f"]) -> Paths:
        """Recovers the paths that end at `rows`, each at its own step."""
        at = self._ancestry(steps, rows)
        signals = NO_SIGNALS
        if self._signals:
            signals = Signals.combine(self._signals, lambda values: _along(values, at))
        return Paths(_along(self._tokens, at)[:, 1:], _along(self._log_probs, at)[:, 1:], signals)

    def history(self) -> Int[Tensor, "r t"]:
        """Recovers the tokens of all current rows."""
        rows = torch.arange(len(self._tokens[-1]), device=self._tokens[-1].device)
        at = self._ancestry(torch.full_like(rows, len(self._tokens) - 1), rows)
        return _along(self._tokens, at)[:, 1:]

    def hypotheses(
        self, ends: Iterable[tuple[int, End]], source_mask: Bool[Tensor, "b i"]
    ) -> list[Hypothesis]:
        """Builds the hypotheses of these (sentence, end) pairs."""
        pairs = list(ends)
        places = torch.tensor([(end.step, end.row) for _, end in pairs], device=source_mask.device)
        paths, found = self.follow(places[:, 0], places[:, 1]), []
        all_tokens, all_log_probs = paths.tokens.tolist(), paths.log_probs.tolist()
        for path, (number, end) in enumerate(pairs):
            log_probs, signals = all_log_probs[path][: end.step], paths.signals
            if end.eos_log_probability is not None:
                log_probs.append(end.eos_log_probability)
            if self._signals:
                signals = _cut(signals, path, len(log_probs), source_mask[number])
            found.append(
                Hypothesis(
                    tokens=tuple(all_tokens[path][: end.step]),
                    score=end.score,
                    log_probability=end.log_probability,
                    token_log_probabilities=tuple(log_probs),
                    finished=end.by_itself,
                    signals=signals,
                    complete=end.eos_log_probability is not None,
                )
            )
        return found

    def _ancestry(self, steps: Int[Tensor, " f"], rows: Int[Tensor, " f"]) -> Int[Tensor, "s f"]:
        """Finds the row of every path at every step; row 0 stands for a path not yet joined."""
        at, here = [], torch.zeros_like(rows)
        for step in range(int(steps.max()), -1, -1):
            here = torch.where(steps == step, rows, here)
            at.append(here)
            here = self._parents[step][here]
        return torch.stack(at[::-1])


@dataclass(frozen=True)
class FinishedHypotheses:
    """Keeps the `size` best finished hypotheses of each sentence; of equals the earlier."""

    size: int
    kept: tuple[tuple[End, ...], ...]  # for each sentence, best first
    counts: Int[Tensor, " b"]  # hypotheses that have finished, kept or not
    worst: Float64[Tensor, " b"]  # the score to beat: -inf while places are empty

    @classmethod
    def none(cls, sentences: int, size: int, device: torch.device) -> "FinishedHypotheses":
        """Starts with nothing finished."""
        counts = torch.zeros(sentences, dtype=torch.long, device=device)
        worst = torch.full((sentences,), -torch.inf, dtype=torch.float64, device=device)
        return cls(size, ((),) * sentences, counts, worst)

    def add(self, ends: Iterable[tuple[int, End]]) -> "FinishedHypotheses":
        """Adds (sentence, end) pairs."""
        kept, counts = list(self.kept), self.counts.tolist()
        for number, end in ends:
            best = sorted((*kept[number], end), key=lambda each: -each.score)
            kept[number] = tuple(best[: self.size])
            counts[number] += 1
        worst = [ends[-1].score if len(ends) == self.size else -torch.inf for ends in kept]
        device = self.counts.device
        return FinishedHypotheses(
            self.size,
            tuple(kept),
            torch.tensor(counts, device=device),
            torch.tensor(worst, dtype=torch.float64, device=device),
        )


def _along(series: Sequence[Tensor], at: Int[Tensor, "s f"]) -> Tensor:
    """Gathers the values (f, s, ...) that each path met."""
    return torch.stack([values[rows] for values, rows in zip(series, at, strict=False)], dim=1)


def _cut(
    signals: Signals[Tensor], path: int, length: int, real: Bool[Tensor, " i"]
) -> Signals[Tensor]:
    """Takes the first `length` steps of one path over the real source tokens."""
    return signals.map(lambda values: values[path, :length, real])
