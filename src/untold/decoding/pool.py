"""The best finished hypotheses of each sentence: pointers into the trace until the end."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from untold.decoding.hypothesis import Hypothesis
from untold.decoding.sentences import Sentences
from untold.decoding.trace import Paths, Trace
from untold.errors import UntoldError

__all__ = ["Ends", "Pool"]


@dataclass(frozen=True)
class Ends:
    """Hypotheses to which EOS is added. A score of -inf is an empty place."""

    scores: Float64[Tensor, "b m"]  # with all penalties
    log_probs: Float64[Tensor, "b m"]  # of the whole hypothesis
    last: Float[Tensor, "b m"]  # log-probability of EOS alone
    rows: Int[Tensor, "b m"]  # the hypothesis: its row in the trace ...
    steps: Int[Tensor, "b m"]  # ... and its step


class Pool:
    """Keeps the `size` best ends of each sentence, best first; of equals the earlier."""

    def __init__(self, sentences: Sentences, size: int) -> None:
        self._sentences = sentences
        device = sentences.source_ids.device
        nothing = torch.full((len(sentences), size), -torch.inf, device=device)
        nowhere = torch.zeros_like(nothing, dtype=torch.long)
        self._kept = Ends(nothing.double(), nothing.double(), nothing, nowhere, nowhere)
        self._counts = torch.zeros(len(sentences), dtype=torch.long, device=device)

    def add(self, numbers: Int[Tensor, " b"], ends: Ends) -> None:
        """New ends of the sentences at `numbers` of the batch."""

        def first(values: Tensor, more: Tensor) -> Tensor:
            return torch.cat([values[numbers], more], dim=1).gather(1, order)

        scores = torch.cat([self._kept.scores[numbers], ends.scores], dim=1)
        size = self._kept.scores.shape[1]
        order = scores.sort(dim=1, descending=True, stable=True).indices[:, :size]
        best = _each(first, self._kept, ends)
        self._kept = _each(lambda old, new: old.index_copy(0, numbers, new), self._kept, best)
        self._counts = self._counts.index_add(0, numbers, (ends.scores > -torch.inf).sum(1))

    def counts(self, numbers: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """How many hypotheses have ended, kept or not."""
        return self._counts[numbers]

    def worst(self, numbers: Int[Tensor, " b"]) -> Float64[Tensor, " b"]:
        """The score to beat: -inf while places are empty."""
        return self._kept.scores[numbers, -1]

    def hypotheses(self, trace: Trace, limits: Int[Tensor, " b"]) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first: at least one."""
        full = self._kept.scores > -torch.inf
        lost = (~full.any(1)).nonzero().flatten().tolist()
        if lost:
            raise UntoldError(
                f"{self._sentences.name(lost[0])}: the model gives no probability to any "
                "translation that the limits and constraints allow"
            )
        paths = trace.follow(self._kept.steps[full], self._kept.rows[full])
        found: list[list[Hypothesis]] = [[] for _ in self._sentences.source_ids]
        for path, (number, place) in enumerate(full.nonzero().tolist()):
            limit = int(limits[number])
            found[number].append(self._hypothesis(paths, path, (number, place), limit))
        return found

    def _hypothesis(
        self, paths: Paths, path: int, place: tuple[int, int], limit: int
    ) -> Hypothesis:
        length = int(self._kept.steps[place])
        real = self._sentences.source_mask[place[0]]
        shown = {name: values[path, : length + 1, real] for name, values in paths.shown.items()}
        log_probs = [*paths.log_probs[path, :length].tolist(), float(self._kept.last[place])]
        return Hypothesis(
            tokens=tuple(paths.tokens[path, :length].tolist()),
            score=float(self._kept.scores[place]),
            log_probability=float(self._kept.log_probs[place]),
            token_log_probabilities=tuple(log_probs),
            finished=length + 1 < limit,
            attention=shown.get("attention"),
            assignments=shown.get("assignments"),
            copying=shown.get("copying"),
        )


def _each(function: Callable[[Tensor, Tensor], Tensor], left: Ends, right: Ends) -> Ends:
    return Ends(*(function(getattr(left, f.name), getattr(right, f.name)) for f in fields(Ends)))
