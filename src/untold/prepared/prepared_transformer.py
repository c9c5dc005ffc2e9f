"""A Transformer without modules: every sublayer is a few calls on tensors that were laid out once.

It computes what models/transformer.py computes, up to rounding, for translation alone: no dropout,
no gradients. Rows are hypotheses or source positions, and none of them is padding. Few rows run
through all layers in one call of a compiled kernel.
"""

import math
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.models.backbone import Decoded
from untold.models.transformer import DecoderLayer, EncoderLayer, Transformer
from untold.native import load
from untold.prepared.hypothesis_memory import HypothesisMemory
from untold.prepared.linear_layouts import LinearWeight
from untold.prepared.prepared_stack import LayerParts, PreparedStack
from untold.prepared.ragged_source import RaggedRows, RaggedSource
from untold.prepared.row_attention import AttentionShape, RowAttention

__all__ = ["PreparedTransformer"]


class PreparedTransformer:
    """Encodes sentences and decodes step by step. It keeps copies of the weights, laid out anew."""

    def __init__(self, backbone: Transformer, *, int8: bool = False) -> None:
        encoder = cast("list[EncoderLayer]", list(backbone.encoder))
        decoder = cast("list[DecoderLayer]", list(backbone.decoder))
        self._d, self._aligning_layer = backbone.d_model, backbone.aligning_layer
        self._source_embedding = backbone.source_embedding
        self._target_embedding = backbone.target_embedding
        shape = AttentionShape(self._d, decoder[0].heads, len(decoder))
        self._attention = RowAttention(shape, load())
        crosses = [layer.cross_attention for layer in decoder]
        keys_values = LinearWeight(
            torch.cat([cross.key_value.weight for cross in crosses]),
            torch.cat([cross.key_value.bias for cross in crosses]),
        )
        self._encoding = PreparedStack(
            [_encoder_parts(layer) for layer in encoder],
            backbone.encoder_norm,
            keys_values,
            shape,
            int8=int8,
        )
        output = backbone.output_layer()
        self._decoding = PreparedStack(
            [_decoder_parts(layer) for layer in decoder],
            backbone.decoder_norm,
            LinearWeight(output.weight, output.bias),
            shape,
            int8=int8,
        )

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> RaggedSource:
        """Computes source states, and the keys and values that each decoder layer attends to."""
        rows = RaggedRows.of(mask)
        x = rows.take(self._source_embedding(ids))
        stack, program = self._encoding, self._encoding.for_rows(len(x))
        whole = stack.whole(len(x))
        if whole is not None:
            states = whole.encode(x, rows)
        else:
            for norms, (qkv, out, inner, outer) in zip(stack.norms, program.layers, strict=True):
                context = self._attention.own(qkv(torch.layer_norm(x, *norms[0])), rows)
                x = out(context).add_(x)
                hidden = inner(torch.layer_norm(x, *norms[1])).relu_()
                x = outer(hidden).add_(x)
            states = torch.layer_norm(x, *stack.last_norm)
        return RaggedSource(
            rows.pad(states),
            mask,
            rows=rows,
            keys_values=program.last(states),
            sentences=torch.arange(len(ids)),
        )

    def start(self, rows: int) -> HypothesisMemory:
        """Returns the memory of `rows` empty hypotheses."""
        return HypothesisMemory.empty(rows, len(self._decoding.norms), 2 * self._d)

    def step(
        self,
        source: RaggedSource,
        last: Int[Tensor, "b n"],
        memory: HypothesisMemory,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, HypothesisMemory]:
        """Reads one token of each hypothesis; returns the memory that holds it, too."""
        (b, n), position = last.shape, memory.length
        x = self._embed(last.view(b * n), position)
        memory, place = memory.grown()
        explained = self._aligning_layer if attention else -1
        whole = self._decoding.whole(b * n)
        if whole is not None:
            states, weights = whole.decode(x, memory, place, source, explained)
        else:
            states, weights = self._layers(x, memory, place, source, explained)
        shown = None if weights is None else weights.view(b, n, -1)
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
            qkv, out, query, cross_out, inner, outer = linears
            context = attend.past(number, qkv(torch.layer_norm(x, *norms[0])), memory, place)
            x = out(context).add_(x)
            asked = query(torch.layer_norm(x, *norms[1]))
            context, shown = attend.source(number, asked, source, explain=number == explained)
            weights = weights if shown is None else shown
            x = cross_out(context).add_(x)
            hidden = inner(torch.layer_norm(x, *norms[2])).relu_()
            x = outer(hidden).add_(x)
        return torch.layer_norm(x, *stack.last_norm), weights

    def _embed(self, ids: Int[Tensor, " r"], position: int) -> Float[Tensor, "r d"]:
        embedding = self._target_embedding
        if position >= len(embedding.table):
            return embedding(ids[:, None], position)[:, 0]
        words = torch.embedding(embedding.embedding.weight, ids)
        return torch.add(embedding.table[position], words, alpha=math.sqrt(self._d))

    def logits(self, readout: Float[Tensor, "r d"]) -> Float[Tensor, "r v"]:
        """Applies the output layer."""
        return self._decoding.for_rows(len(readout)).last(readout)


def _encoder_parts(layer: EncoderLayer) -> LayerParts:
    own, ffn = layer.attention, layer.ffn
    linears = [own.qkv, own.out, ffn.inner, ffn.outer]
    return LayerParts(linears, [layer.attention_norm, layer.ffn_norm])


def _decoder_parts(layer: DecoderLayer) -> LayerParts:
    own, cross, ffn = layer.self_attention, layer.cross_attention, layer.ffn
    linears = [own.qkv, own.out, cross.query, cross.out, ffn.inner, ffn.outer]
    return LayerParts(linears, [layer.self_norm, layer.cross_norm, layer.ffn_norm])
