"""Keys and values of the tokens that hypotheses have read, none of them ever moved.

Each step writes its tokens behind those of the step before. A hypothesis is a path: the places of
its tokens. When a search drops, copies or reorders hypotheses, paths change and tokens stay, so
that hypotheses with a common beginning also share its memory.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["HypothesisMemory", "TokenStore"]

_ROOM = 32  # positions of a path at first; a full one doubles
_STEPS = 16  # steps for which there is room at first


class TokenStore:
    """Holds what all layers keep of all tokens of a search. Steps append to it."""

    def __init__(self, layers: int, width: int) -> None:
        """Takes the number of layers, and how many numbers each keeps of a token."""
        self.numbers: Float[Tensor, "l n w"] = torch.empty(layers, 0, width)
        self.filled = 0

    def reserve(self, rows: int) -> int:
        """Makes room for `rows` more tokens and returns the place of the first."""
        first, end = self.filled, self.filled + rows
        layers, room, width = self.numbers.shape
        if end > room:
            grown = torch.empty(layers, max(2 * room, _STEPS * rows), width)
            grown[:, :first] = self.numbers[:, :first]
            self.numbers = grown
        self.filled = end
        return first


@dataclass(frozen=True)
class HypothesisMemory:
    """Holds the paths of hypotheses, `length` tokens long, into a store that they share."""

    store: TokenStore
    path: Int[Tensor, "r room"]  # int32
    length: int = 0

    @classmethod
    def empty(cls, rows: int, layers: int, width: int) -> "HypothesisMemory":
        """Returns `rows` hypotheses that have read nothing."""
        return cls(TokenStore(layers, width), torch.zeros(rows, _ROOM, dtype=torch.int32))

    def select(self, rows: Int[Tensor, " s"]) -> "HypothesisMemory":
        """Keeps the hypotheses at `rows`, in that order."""
        return replace(self, path=self.path.index_select(0, rows))

    def grown(self) -> tuple["HypothesisMemory", int]:
        """Makes room for one more token of each; returns itself, and the first one's place.

        Whoever writes the tokens also writes their places into the path.
        """
        path = self.path
        if self.length >= path.shape[1]:
            path = torch.cat([path, torch.zeros_like(path)], dim=1)
        place = self.store.reserve(len(path))
        return HypothesisMemory(self.store, path, self.length + 1), place
