"""Encoded sentences without padding, one after the other."""

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.models.backbone import Source

__all__ = ["RaggedRows", "RaggedSource"]


@dataclass(frozen=True)
class RaggedRows:
    """Says where each sentence of a batch lies among the rows of all."""

    starts: Int[Tensor, " e"]  # of each sentence, and the end of the last
    longest: int
    places: Int[Tensor, " r"] | None  # of the rows among the padded ones; None: nothing is padded

    @classmethod
    def of(cls, mask: Bool[Tensor, "b i"]) -> "RaggedRows":
        """Counts the real tokens of each sentence."""
        assert bool((mask[:, :-1] >= mask[:, 1:]).all()), "padding comes behind a sentence"
        (b, i), counts = mask.shape, mask.sum(1)
        starts = torch.zeros(b + 1, dtype=torch.long)
        torch.cumsum(counts, 0, out=starts[1:])
        whole = int(starts[-1]) == b * i
        return cls(starts, i, None if whole else mask.view(-1).nonzero()[:, 0])

    def __len__(self) -> int:
        """Counts the sentences."""
        return len(self.starts) - 1

    def take(self, padded: Tensor) -> Tensor:
        """Leaves the padding out of (b i ...)."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)

    def pad(self, rows: Tensor) -> Tensor:
        """Returns (b i ...) with zeros where nothing is."""
        size = len(self) * self.longest
        if self.places is not None:
            rows = rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, self.places, rows)
        return rows.unflatten(0, (len(self), self.longest))


@dataclass(frozen=True)
class RaggedSource(Source):
    """Holds what steps read of a batch; hypotheses name their sentence, and nothing is copied."""

    rows: RaggedRows = field(kw_only=True)
    attended: RaggedRows = field(kw_only=True)  # with the frame around each source, if any
    keys_values: Float[Tensor, "r w"] = field(kw_only=True)  # of all layers
    sentences: Int[Tensor, " b"] = field(kw_only=True)  # those that go on
    folded: tuple[Tensor, ...] = ()  # for prepared routing, of all sentences

    def select(self, rows: Int[Tensor, " r"]) -> "RaggedSource":
        """Returns the sentences at `rows`, in that order."""
        chosen = super().select(rows)
        return replace(
            self,
            states=chosen.states,
            mask=chosen.mask,
            votes=chosen.votes,
            copies=chosen.copies,
            sentences=self.sentences.index_select(0, rows),
        )
