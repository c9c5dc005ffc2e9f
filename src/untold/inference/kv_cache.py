"""Keys and values of what was read, none of them ever moved, and attention to them.

Each step writes its tokens behind those of the step before. A hypothesis is a path: the places of
its tokens. When a search drops, copies or reorders hypotheses, paths change and tokens stay, so
that hypotheses with a common beginning also share its memory. Encoded sentences lie one after the
other, without padding.

Attention has two forms. The compiled one reads keys and values in place; the other gathers them and
lets torch attend: it defines what the first computes, and runs where nothing was compiled.
"""

import ctypes
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.inference.kernels import Kernels, Past, Shape, Sources
from untold.models.backbone import Source

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


@dataclass
class HypothesisMemory:
    """Holds the paths of hypotheses, `length` tokens long, into a store that they share.

    A step makes a new one and then sets `covered`, how far each hypothesis has covered its source.
    """

    store: TokenStore
    path: Int[Tensor, "r room"]  # int32
    length: int = 0
    covered: Float[Tensor, "r i"] | None = None

    @classmethod
    def empty(cls, rows: int, layers: int, width: int) -> "HypothesisMemory":
        """Returns `rows` hypotheses that have read nothing."""
        return cls(TokenStore(layers, width), torch.zeros(rows, _ROOM, dtype=torch.int32))

    def select(self, rows: Int[Tensor, " s"]) -> "HypothesisMemory":
        """Keeps the hypotheses at `rows`, in that order."""
        covered = None if self.covered is None else self.covered.index_select(0, rows)
        path = self.path.index_select(0, rows)
        return HypothesisMemory(self.store, path, self.length, covered)

    def grown(self) -> tuple["HypothesisMemory", int]:
        """Makes room for one more token of each; returns itself, and the first one's place.

        Whoever writes the tokens also writes their places into the path.
        """
        path = self.path
        if self.length >= path.shape[1]:
            path = torch.cat([path, torch.zeros_like(path)], dim=1)
        place = self.store.reserve(len(path))
        return HypothesisMemory(self.store, path, self.length + 1), place


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


class AttentionShape(NamedTuple):
    """Says how wide states are, into how many heads they fall, and how many layers keep them."""

    width: int
    heads: int
    layers: int = 0

    def split(self, values: Float[Tensor, "*r w"]) -> Float[Tensor, "*r h e"]:
        """Splits values by head."""
        return values.unflatten(-1, (self.heads, self.width // self.heads))


class RowAttention:
    """Attends for the rows of a step or of an encoder."""

    def __init__(self, shape: AttentionShape, kernels: Kernels | None) -> None:
        self.shape, self._kernels = shape, kernels
        self.native = Shape(width=shape.width, heads=shape.heads, layers=shape.layers)

    def past(
        self, layer: int, qkv: Float[Tensor, "r w"], memory: HypothesisMemory, place: int
    ) -> Float[Tensor, "r d"]:
        """Writes the newest tokens of hypotheses from `place` on; each attends to its path."""
        out = qkv.new_empty(len(qkv), self.shape.width)
        if self._kernels is None:
            return self._gathered_past(layer, qkv, memory, place)
        past, shares = native_past(memory, place), torch.empty(self.shape.heads * memory.length)
        common = ctypes.byref(self.native), layer, qkv.data_ptr(), ctypes.byref(past)
        self._kernels.read_past(*common, len(qkv), shares.data_ptr(), out.data_ptr())
        return out

    def source(
        self, layer: int, queries: Float[Tensor, "r d"], source: RaggedSource, *, explain: bool
    ) -> tuple[Float[Tensor, "r d"], Float[Tensor, "r i"] | None]:
        """Attends to the source of each row; returns the heads' mean shares if they are wanted."""
        if self._kernels is None:
            return self._padded_source(layer, queries, source, explain)
        out, length = torch.empty_like(queries), source.attended.longest
        means = queries.new_empty(len(queries), length) if explain else None
        sources = native_sources(source, source.attended, len(queries))
        shares = torch.empty(self.shape.heads * length)
        common = ctypes.byref(self.native), layer, queries.data_ptr(), ctypes.byref(sources)
        results = shares.data_ptr(), out.data_ptr(), None if means is None else means.data_ptr()
        self._kernels.read_source(*common, len(queries), *results, length)
        return out, means

    def own(self, qkv: Float[Tensor, "r w"], rows: RaggedRows) -> Float[Tensor, "r d"]:
        """Lets every position attend to those of its own sentence."""
        if self._kernels is None:
            return self._padded_own(qkv, rows)
        out = qkv.new_empty(len(qkv), self.shape.width)
        shares = torch.empty(self.shape.heads * rows.longest)
        common = ctypes.byref(self.native), qkv.data_ptr(), rows.starts.data_ptr(), len(rows)
        self._kernels.read_own(*common, shares.data_ptr(), out.data_ptr())
        return out

    def _gathered_past(
        self, layer: int, qkv: Float[Tensor, "r w"], memory: HypothesisMemory, place: int
    ) -> Float[Tensor, "r d"]:
        d, (rows, _), tokens = self.shape.width, qkv.shape, memory.store.numbers[layer]
        memory.path[:, memory.length - 1] = torch.arange(place, place + rows)
        tokens[place : place + rows] = qkv[:, d:]
        seen = tokens[memory.path[:, : memory.length].long()].split(d, dim=-1)
        keys, values = (self.shape.split(part).transpose(1, 2) for part in seen)
        queries = self.shape.split(qkv[:, :d])[:, :, None]
        return F.scaled_dot_product_attention(queries, keys, values).reshape(rows, d)

    def _padded_source(
        self, layer: int, queries: Float[Tensor, "r d"], source: RaggedSource, explain: bool
    ) -> tuple[Float[Tensor, "r d"], Float[Tensor, "r i"] | None]:
        d, beams = self.shape.width, len(queries) // len(source.sentences)
        chosen = source.keys_values[:, 2 * layer * d : 2 * (layer + 1) * d]
        real = source.attended.pad(torch.ones(len(chosen), dtype=torch.bool))[source.sentences]
        padded = source.attended.pad(chosen)[source.sentences].repeat_interleave(beams, 0)
        keys, values = (self.shape.split(part).transpose(1, 2) for part in padded.split(d, -1))
        asked = self.shape.split(queries)[:, :, None]
        scores = (asked @ keys.mT) * (d // self.shape.heads) ** -0.5
        real = real.repeat_interleave(beams, 0)[:, None, None]
        shares = scores.masked_fill(~real, -torch.inf).softmax(-1)
        return (shares @ values).reshape(-1, d), shares[:, :, 0].mean(1) if explain else None

    def _padded_own(self, qkv: Float[Tensor, "r w"], rows: RaggedRows) -> Float[Tensor, "r d"]:
        padded = rows.pad(qkv).split(self.shape.width, -1)
        queries, keys, values = (self.shape.split(part).transpose(1, 2) for part in padded)
        real = rows.pad(torch.ones(len(qkv), dtype=torch.bool))[:, None, None]
        context = F.scaled_dot_product_attention(queries, keys, values, real)
        return rows.take(context.transpose(1, 2).flatten(2))


def native_past(memory: HypothesisMemory, place: int) -> Past:
    """Describes hypotheses whose newest tokens go to `place` and behind it."""
    numbers, path = memory.store.numbers, memory.path
    addresses = numbers.data_ptr(), path.data_ptr()
    return Past(*addresses, numbers.shape[1], path.shape[1], memory.length - 1, place)


def native_sources(source: RaggedSource, places: RaggedRows, rows: int) -> Sources:
    """Describes the sources of a step with so many rows; `places` tells which rows are theirs."""
    sentences: Int[Tensor, " b"] = source.sentences
    return Sources(
        source.keys_values.data_ptr(),
        places.starts.data_ptr(),
        sentences.data_ptr(),
        rows // len(sentences),
    )
