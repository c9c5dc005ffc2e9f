"""A Transformer without modules: every sublayer is a few calls on tensors that were laid out once.

It computes what the model does whose parts it was given, up to rounding, for translation alone: no
dropout, no gradients. Rows are hypotheses or source positions, and none of them is padding. Few
rows run through all layers in one call of a compiled kernel.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.models.backbone import Decoded, OutputLayer
from untold.models.transformer_parts import (
    LinearWeight,
    SourceFrame,
    TransformerParts,
    check_positions,
)
from untold.native import load
from untold.prepared.hypothesis_memory import HypothesisMemory
from untold.prepared.native_stacks import StackShape
from untold.prepared.prepared_stack import PreparedStack
from untold.prepared.ragged_source import RaggedRows, RaggedSource
from untold.prepared.row_attention import AttentionShape, RowAttention

__all__ = ["PreparedTransformer"]


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
        whole = stack.whole(len(x))
        if whole is not None:
            states = whole.encode(x, rows)
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
            _, memory = self.step(source, before, memory)
        return memory

    def step(
        self,
        source: RaggedSource,
        last: Int[Tensor, "b n"],
        memory: HypothesisMemory,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, HypothesisMemory]:
        """Reads one token of each hypothesis; returns the memory that holds it, too."""
        (b, n), position, parts = last.shape, memory.length, self._parts
        if parts.longest is not None:
            check_positions(position + 1, parts.longest)
        x = parts.target_embedding.at(last.view(b * n), position)
        memory, place = memory.grown()
        explained = parts.aligning_layer if attention else -1
        whole = self._decoding.whole(b * n)
        if whole is not None:
            states, weights = whole.decode(x, memory, place, source, explained)
        else:
            states, weights = self._layers(x, memory, place, source, explained)
        shown = None if weights is None else weights.view(b, n, -1)
        if shown is not None and parts.frame is not None:
            shown = _without_frame(shown, parts.frame, source)
        return Decoded(states.view(b, n, -1), shown), memory

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
    own = weights[..., frame.first : frame.first + source.mask.shape[1]]
    own = own.masked_fill(~source.mask[:, None], 0.0)
    return own / own.sum(-1, keepdim=True).clamp(min=torch.finfo(own.dtype).tiny)
