"""Keys and values of the tokens that a decoder has read, in one buffer that steps write into.

The buffer is laid out as (positions, layers, hypotheses, keys and values, heads, width): one copy
reorders the hypotheses of all layers, and it touches the filled positions alone. Layouts with the
hypotheses first were measured: they reorder as fast, and attention takes twice as long in them. A
second buffer takes turns with the first, so that no memory is asked for while a search runs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["BufferShape", "BufferViews", "KeyValueBuffers"]

_ROOM = 32  # positions at first; a full buffer doubles


class BufferShape(NamedTuple):
    """Says what one position of one hypothesis holds."""

    layers: int
    heads: int
    width: int  # of one head


@dataclass(frozen=True)
class BufferViews:
    """Holds one buffer as steps read and write it."""

    whole: Float[Tensor, "room layers rows w"]
    layers: list[Float[Tensor, "room rows w"]]
    keys: list[Float[Tensor, "rows heads room e"]]
    values: list[Float[Tensor, "rows heads room e"]]


class KeyValueBuffers:
    """The memory of a search. It changes in place."""

    def __init__(self, shape: BufferShape, rows: int) -> None:
        """Makes room for `rows` empty hypotheses."""
        self._shape = shape
        self._numbers = [torch.empty(0), torch.empty(0)]
        self._views: list[BufferViews | None] = [None, None]
        self._now = 0
        self._take(0, rows, _ROOM)

    def at(self, length: int) -> BufferViews:
        """Returns the present buffer, with room at position `length`."""
        views = self._views[self._now]
        assert views is not None
        if length < len(views.whole):
            return views
        grown = self._take(1 - self._now, views.whole.shape[2], 2 * len(views.whole))
        grown.whole[:length] = views.whole[:length]
        self._now = 1 - self._now
        return grown

    def reorder(self, rows: Int[Tensor, " r"], length: int) -> None:
        """Keeps the hypotheses at `rows`, in that order, with their first `length` positions."""
        before = self.at(length).whole
        after = self._take(1 - self._now, len(rows), len(before))
        torch.index_select(before[:length], 2, rows, out=after.whole[:length])
        self._now = 1 - self._now

    def _take(self, which: int, rows: int, room: int) -> BufferViews:
        """Lays out one of the two buffers; its contents are lost."""
        views, (layers, heads, width) = self._views[which], self._shape
        if views is not None and views.whole.shape[::2] == (room, rows):
            return views
        shape = (room, layers, rows, 2 * heads * width)
        needed = rows * layers * room * shape[3]
        if len(self._numbers[which]) < needed:
            self._numbers[which] = torch.empty(needed)
        whole = self._numbers[which][:needed].view(shape)
        split = whole.view(room, layers, rows, 2, heads, width).permute(1, 3, 2, 4, 0, 5)
        views = self._views[which] = BufferViews(
            whole,
            list(whole.unbind(1)),
            [layer[0] for layer in split],
            [layer[1] for layer in split],
        )
        return views
