"""Keys and values of the tokens that a decoder has read, in one buffer that steps write into.

The buffer is laid out as (positions, layers, hypotheses, keys and values, heads, width): one copy
reorders the hypotheses of all layers, and it touches the positions that are filled and no others.
A second buffer takes turns with the first, so that no memory is asked for while a search runs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["BufferShape", "KeyValueBuffers"]

_POSITIONS = 32  # room at first; a full buffer doubles


class BufferShape(NamedTuple):
    """Says what one position of one hypothesis holds."""

    layers: int
    heads: int
    width: int  # of one head


@dataclass(frozen=True)
class _Views:
    """Holds one buffer as steps read and write it."""

    whole: Float[Tensor, "room layers rows w"]
    layers: list[Float[Tensor, "room rows w"]]
    keys: list[Float[Tensor, "rows heads room e"]]
    values: list[Float[Tensor, "rows heads room e"]]


class KeyValueBuffers:
    """The memory of a search. It changes in place: `rows` is how many hypotheses it holds now."""

    def __init__(self, shape: BufferShape, rows: int) -> None:
        self._shape, self._floats = shape, shape.layers * 2 * shape.heads * shape.width
        self._flat = [torch.empty(_POSITIONS * rows * self._floats), torch.empty(0)]
        self._views: list[_Views | None] = [None, None]
        self._now = 0
        self.rows = rows

    def write(self, length: int) -> _Views:
        """Returns the views of the present buffer, with room at position `length`."""
        views = self._views[self._now]
        if views is not None and length < len(views.whole):
            return views
        room = self._room(self._now, self.rows)
        if length >= room:
            grown = torch.empty(2 * len(self._flat[self._now]))
            if views is not None:
                filled = views.whole[:length].flatten()
                grown[: len(filled)] = filled
            self._flat[self._now] = grown
        views = self._views[self._now] = self._view(self._now)
        return views

    def reorder(self, rows: Int[Tensor, " r"], length: int) -> None:
        """Keeps the hypotheses at `rows`, in that order, with their first `length` positions."""
        before = self.write(length - 1).whole
        other, count = 1 - self._now, len(rows)
        needed = (length + 1) * count * self._floats
        if len(self._flat[other]) < needed:
            self._flat[other] = torch.empty(max(2 * needed, len(self._flat[self._now])))
            self._views[other] = None
        views = self._views[other]
        if views is None or views.whole.shape[2] != count:
            self.rows = count
            views = self._views[other] = self._view(other)
        torch.index_select(before[:length], 2, rows, out=views.whole[:length])
        self._now, self.rows = other, count

    def _room(self, which: int, rows: int) -> int:
        return len(self._flat[which]) // (rows * self._floats)

    def _view(self, which: int) -> _Views:
        layers, heads, width = self._shape
        room = self._room(which, self.rows)
        floats = self._flat[which][: room * self.rows * self._floats]
        whole = floats.view(room, layers, self.rows, -1)
        split = whole.view(room, layers, self.rows, 2, heads, width).permute(1, 3, 2, 4, 0, 5)
        return _Views(
            whole,
            list(whole.unbind(1)),
            [layer[0] for layer in split],
            [layer[1] for layer in split],
        )
