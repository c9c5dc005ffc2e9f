"""A Transformer without modules: every sublayer is a few calls on tensors that were laid out once.

It computes what the model does whose parts it was given, up to rounding, for translation alone: no
dropout, no gradients. Rows are hypotheses or source positions, and none of them is padding.

Few rows run through all layers in one call of a compiled kernel, which reads each weight once: a
decoder step of a small model would be sixty calls of torch, which take longer than computing. Many
rows run sublayer by sublayer, for they need oneDNN's products and torch's threads.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.inference.kernels import Kernels, Layers, Norm, Room, Shape, load
from untold.inference.kv_cache import (
    AttentionShape,
    HypothesisMemory,
    RaggedRows,
    RaggedSource,
    RowAttention,
    native_past,
    native_sources,
)
from untold.inference.linear import Apply, LaidOut, PanelLinear
from untold.models.backbone import (
    LayerParts,
    LinearWeight,
    OutputLayer,
    SourceFrame,
    TransformerParts,
    check_positions,
)
from untold.models.layers import ACTIVATIONS

_ACTIVATIONS = ("relu", "swish", "gelu")  # in the order of kernels.h
_FEW = 8  # rows: the kernel reads weights of any size as fast as memory gives them
_SOME = 32  # rows: it is as fast as oneDNN where the weights are small
_FEW_THREADS = 2  # of torch, which are no faster than one of the kernel
_SMALL = 4_000_000  # numbers in all weights: calling torch takes longer than computing


class StackShape(NamedTuple):
    """Says what all layers of a stack have in common."""

    attention: AttentionShape
    activation: str  # a key of ACTIVATIONS


class StackLayer(NamedTuple):
    """Holds the parts of one layer in the order of their use."""

    linears: Sequence[PanelLinear]
    norms: Sequence[nn.LayerNorm]


class NativeStack:
    """The layers of an encoder or a decoder, and its last norm.

    Without a last norm those of the sublayers come after them. All norms have the same epsilon.
    """

    def __init__(
        self,
        kernels: Kernels,
        layers: Sequence[StackLayer],
        last: nn.LayerNorm | None,
        shape: StackShape,
    ) -> None:
        self._kernels, (self._width, self._heads, *_) = kernels, shape.attention
        self._linears = [layer.linears for layer in layers]  # the structures point into them
        self._norms: list[Tensor] = []
        self._shape = Shape(
            width=self._width,
            heads=self._heads,
            layers=len(layers),
            eps=layers[0].norms[0].eps,
            norms_after=last is None,
            activation=_ACTIVATIONS.index(shape.activation),
        )
        rows = [
            ([linear.structure for linear in layer.linears], [*map(self._norm, layer.norms)])
            for layer in layers
        ]
        self._layers = Layers.of(rows)
        self._last = Norm() if last is None else self._norm(last)
        self._widest = max(linear.outputs for layer in layers for linear in layer.linears)

    def decode(
        self,
        x: Float[Tensor, "r d"],
        memory: HypothesisMemory,
        place: int,
        source: RaggedSource,
        explained: int = -1,
    ) -> tuple[Float[Tensor, "r d"], Float[Tensor, "r i"] | None]:
        """Reads one token a row, given as an embedding that is lost; returns the states.

        Also returns the mean shares of the layer `explained`, if there is one.
        """
        rows, length = len(x), source.attended.longest
        states = torch.empty_like(x)
        means = x.new_empty(rows, length) if explained >= 0 else None
        room, _kept = self._room(rows, max(memory.length, length))
        self._kernels.decode(
            ctypes.byref(self._shape),
            self._layers,
            ctypes.byref(self._last),
            ctypes.byref(native_past(memory, place)),
            ctypes.byref(native_sources(source, source.attended, rows)),
            ctypes.byref(room),
            x.data_ptr(),
            states.data_ptr(),
            rows,
            None if means is None else means.data_ptr(),
            length,
            explained,
        )
        return states, means

    def encode(self, x: Float[Tensor, "r d"], rows: RaggedRows) -> Float[Tensor, "r d"]:
        """Encodes sentences, given as embeddings that are lost."""
        states = torch.empty_like(x)
        room, _kept = self._room(len(x), rows.longest)
        self._kernels.encode(
            ctypes.byref(self._shape),
            self._layers,
            ctypes.byref(self._last),
            rows.starts.data_ptr(),
            len(rows),
            ctypes.byref(room),
            x.data_ptr(),
            states.data_ptr(),
        )
        return states

    def _room(self, rows: int, longest: int) -> tuple[Room, Tensor]:
        """Finds memory for one call, and returns it with what keeps it alive."""
        sizes = rows * self._width, rows * self._widest, rows * self._width, self._heads * longest
        numbers = torch.empty(sum(sizes))
        first = numbers.data_ptr()
        places = [first + 4 * sum(sizes[:part]) for part in range(4)]
        return Room(*places), numbers

    def _norm(self, norm: nn.LayerNorm) -> Norm:
        weight, bias = norm.weight.detach().clone(), norm.bias.detach().clone()
        self._norms += weight, bias
        return Norm(weight.data_ptr(), bias.data_ptr())


class PreparedNorm(NamedTuple):
    """Holds what torch.layer_norm takes beside its input."""

    shape: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None
    eps: float

    @classmethod
    def of(cls, norm: nn.LayerNorm) -> "PreparedNorm":
        """Takes what a module holds."""
        return cls(tuple(norm.normalized_shape), norm.weight, norm.bias, norm.eps)


class Program(NamedTuple):
    """Holds linear layers, laid out for about so many rows."""

    layers: list[tuple[Apply, ...]]  # those of each layer, in the order of use
    last: Apply  # the output layer, or the keys and values of the decoder


class PreparedStack:
    """The layers of an encoder or a decoder, and the linear layer behind them.

    Without a `last_norm` the norms of the sublayers come after them.
    """

    def __init__(
        self,
        layers: Sequence[LayerParts],
        last_norm: nn.LayerNorm | None,
        last: LinearWeight,
        shape: StackShape,
        *,
        int8: bool,
    ) -> None:
        self._parts, self._last_module, self._shape = list(layers), last_norm, shape
        weights = [linear for layer in layers for linear in layer.linears]
        self._size = sum(linear.weight.numel() for linear in weights)
        self._linears = LaidOut([*weights, last], int8=int8)
        self._programs_by_rows: dict[int, Program] = {}
        self._native: NativeStack | None = None
        self.norms = [[PreparedNorm.of(norm) for norm in layer.norms] for layer in layers]
        self.last_norm = None if last_norm is None else PreparedNorm.of(last_norm)
        self._activate = ACTIVATIONS[shape.activation]
        norms = [norm for layer in layers for norm in layer.norms]
        norms += [] if last_norm is None else [last_norm]
        # The kernel knows layers whose norms are alike.
        self._fits_native_kernel = bool(layers) and len({norm.eps for norm in norms}) == 1

    def before(self, x: Float[Tensor, "r d"], norm: PreparedNorm) -> Float[Tensor, "r d"]:
        """Applies the norm of a sublayer to what it reads, if norms come before."""
        return x if self.last_norm is None else torch.layer_norm(x, *norm)

    def after(self, x: Float[Tensor, "r d"], norm: PreparedNorm) -> Float[Tensor, "r d"]:
        """Applies the norm of a sublayer to the sum that it leaves, if norms come after."""
        return torch.layer_norm(x, *norm) if self.last_norm is None else x

    def feed_forward(
        self, x: Float[Tensor, "r d"], linears: tuple[Apply, ...], norm: PreparedNorm
    ) -> Float[Tensor, "r d"]:
        """Runs the last sublayer of a layer, whose last two linear layers it is."""
        *_, inner, outer = linears
        hidden = self._activate(inner(self.before(x, norm)))
        return self.after(outer(hidden).add_(x), norm)

    def end(self, x: Float[Tensor, "r d"]) -> Float[Tensor, "r d"]:
        """Applies the norm after the last layer, if there is one."""
        return x if self.last_norm is None else torch.layer_norm(x, *self.last_norm)

    def for_rows(self, rows: int) -> Program:
        """Returns the linear layers in the layouts that are fastest for so many rows."""
        program = self._programs_by_rows.get(rows)
        if program is None:
            *flat, last = self._linears.for_rows(rows)
            count = len(self._parts[0].linears) if self._parts else 1
            layers = [tuple(flat[k : k + count]) for k in range(0, len(flat), count)]
            program = self._programs_by_rows[rows] = Program(layers, last)
        return program

    def native(self, rows: int) -> NativeStack | None:
        """Returns the kernel that runs all layers at once, where that is faster; else None."""
        kernels, small = load(), self._size <= _SMALL
        if kernels is None or not self._fits_native_kernel or rows > (_SOME if small else _FEW):
            return None
        if not small and torch.get_num_threads() > _FEW_THREADS:
            return None
        if self._native is None:
            linears = self._linears.in_panels()
            if linears is None:
                return None
            panels = iter(cast("list[PanelLinear]", linears))
            layers = [
                StackLayer([next(panels) for _ in part.linears], part.norms) for part in self._parts
            ]
            self._native = NativeStack(kernels, layers, self._last_module, self._shape)
        return self._native


class PreparedTransformer:
    """Encodes sentences and decodes step by step. It keeps copies of the weights, laid out anew."""

    def __init__(self, parts: TransformerParts, output: OutputLayer, *, int8: bool = False) -> None:
        self._parts = parts
        attention = AttentionShape(parts.width, parts.heads, len(parts.decoder))
        shape = StackShape(attention, parts.activation)
        self._attention = RowAttention(attention, load())
        self._encoding = PreparedStack(
            parts.encoder, parts.encoder_norm, parts.keys_values, shape, int8=int8
        )
        last = LinearWeight(output.weight, output.bias)
        self._decoding = PreparedStack(parts.decoder, parts.decoder_norm, last, shape, int8=int8)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> RaggedSource:
        """Computes source states, and the keys and values that each decoder layer attends to."""
        frame = self._parts.frame
        framed, real = (ids, mask) if frame is None else frame.insert(ids, mask)
        if self._parts.longest is not None:
            check_positions(framed.shape[1], self._parts.longest)
        rows = RaggedRows.of(real)
        x = rows.take(self._parts.source_embedding(framed))
        stack, program = self._encoding, self._encoding.for_rows(len(x))
        native = stack.native(len(x))
        if native is not None:
            states = native.encode(x, rows)
        else:
            for norms, linears in zip(stack.norms, program.layers, strict=True):
                qkv, out, *_ = linears
                context = self._attention.own(qkv(stack.before(x, norms[0])), rows)
                x = stack.after(out(context).add_(x), norms[0])
                x = stack.feed_forward(x, linears, norms[1])
            states = stack.end(x)
        padded, first = rows.pad(states), 0 if frame is None else frame.first
        return RaggedSource(
            padded[:, first : first + ids.shape[1]].contiguous(),
            mask,
            rows=rows if frame is None else RaggedRows.of(mask),
            attended=rows,
            keys_values=program.last(states),
            sentences=torch.arange(len(ids)),
        )

    def start(self, source: RaggedSource, beams: int) -> HypothesisMemory:
        """Returns the memory of empty hypotheses, which holds what is read before BOS."""
        rows, layers = len(source.states) * beams, len(self._parts.decoder)
        memory = HypothesisMemory.empty(rows, layers, 2 * self._parts.width)
        for token in self._parts.target_before:
            before = torch.full((len(source.states), beams), token)
            *_, memory = self.step(source, before, memory)
        return memory

    def step(
        self,
        source: RaggedSource,
        last: Int[Tensor, "b n"],
        memory: HypothesisMemory,
        *,
        attention: bool = False,
    ) -> tuple[Float[Tensor, "b n d"], Float[Tensor, "b n i"] | None, HypothesisMemory]:
        """Reads one token of each hypothesis.

        Returns its state, its attention to the source if it is wanted, and a memory that holds it.
        """
        (b, n), position, parts = last.shape, memory.length, self._parts
        if parts.longest is not None:
            check_positions(position + 1, parts.longest)
        x = parts.target_embedding.at(last.view(b * n), position)
        memory, place = memory.grown()
        explained = parts.aligning_layer if attention else -1
        native = self._decoding.native(b * n)
        if native is not None:
            states, weights = native.decode(x, memory, place, source, explained)
        else:
            states, weights = self._layers(x, memory, place, source, explained)
        shown = None if weights is None else weights.view(b, n, -1)
        if shown is not None and parts.frame is not None:
            shown = _without_frame(shown, parts.frame, source)
        return states.view(b, n, -1), shown, memory

    def _layers(
        self,
        x: Float[Tensor, "r d"],
        memory: HypothesisMemory,
        place: int,
        source: RaggedSource,
        explained: int,
    ) -> tuple[Float[Tensor, "r d"], Float[Tensor, "r i"] | None]:
        """Runs sublayer by sublayer; the arguments are those of NativeStack.decode."""
        stack, attend, weights = self._decoding, self._attention, None
        program = stack.for_rows(len(x))
        for number, (norms, linears) in enumerate(zip(stack.norms, program.layers, strict=True)):
            qkv, out, query, cross_out, *_ = linears
            context = attend.past(number, qkv(stack.before(x, norms[0])), memory, place)
            x = stack.after(out(context).add_(x), norms[0])
            asked = query(stack.before(x, norms[1]))
            context, shown = attend.source(number, asked, source, explain=number == explained)
            weights = weights if shown is None else shown
            x = stack.after(cross_out(context).add_(x), norms[1])
            x = stack.feed_forward(x, linears, norms[2])
        return stack.end(x), weights

    def logits(self, readout: Float[Tensor, "r d"]) -> Float[Tensor, "r v"]:
        """Applies the output layer."""
        return self._decoding.for_rows(len(readout)).last(readout)


def _without_frame(
    weights: Float[Tensor, "b n f"], frame: SourceFrame, source: RaggedSource
) -> Float[Tensor, "b n i"]:
    """Leaves out the columns of the frame; the rest sums to one over the source again."""
    rest = weights[..., frame.first : frame.first + source.mask.shape[1]]
    rest = rest.masked_fill(~source.mask[:, None], 0.0)
    return rest / rest.sum(-1, keepdim=True).clamp(min=torch.finfo(rest.dtype).tiny)
