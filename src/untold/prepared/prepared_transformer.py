"""A Transformer without modules: every sublayer is a few calls on tensors that were laid out once.

It computes what models/transformer.py computes, up to rounding, for translation alone: no dropout,
no gradients. Rows are hypotheses (or source positions) without an axis of their own for time.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.models.backbone import Decoded, Source
from untold.models.transformer import DecoderLayer, EncoderLayer, Transformer
from untold.prepared.key_value_buffers import BufferShape, KeyValueBuffers
from untold.prepared.layout_choice import LaidOut
from untold.prepared.linear_layouts import Apply, LinearWeight
from untold.prepared.lone_source import FoldedWeights, LoneSource, pays_alone

__all__ = ["PreparedTransformer"]


class _Norm(NamedTuple):
    """Holds what torch.layer_norm takes beside its input."""

    shape: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None
    eps: float


class _Program(NamedTuple):
    """Holds the linear layers for about so many rows."""

    layers: list[tuple[Apply, ...]]  # those of each layer, in the order of use
    last: Apply  # the output layer, or the keys and values of the decoder


@dataclass(frozen=True)
class _Stack:
    """Lays out the linear layers of a stack of layers."""

    linears: LaidOut
    each: int  # linear layers in one layer
    programs: dict[int, _Program]

    @classmethod
    def of(cls, layers: list[list[nn.Linear]], last: LinearWeight, *, int8: bool) -> "_Stack":
        weights = [LinearWeight(each.weight, each.bias) for layer in layers for each in layer]
        return cls(LaidOut([*weights, last], int8=int8), len(layers[0]) if layers else 1, {})

    def for_rows(self, rows: int) -> _Program:
        found = self.programs.get(rows)
        if found is None:
            *flat, last = self.linears.for_rows(rows)
            layers = [tuple(flat[k : k + self.each]) for k in range(0, len(flat), self.each)]
            found = self.programs[rows] = _Program(layers, last)
        return found


class PreparedTransformer:
    """Encodes sentences and decodes step by step. It keeps copies of the weights, laid out anew."""

    def __init__(self, backbone: Transformer, *, int8: bool = False) -> None:
        encoder = cast("list[EncoderLayer]", list(backbone.encoder))
        decoder = cast("list[DecoderLayer]", list(backbone.decoder))
        self._d, self._aligning_layer = backbone.d_model, backbone.aligning_layer
        self._heads = decoder[0].heads if decoder else 1
        self._layers = len(decoder)
        self._source_embedding = backbone.source_embedding
        self._target_embedding = backbone.target_embedding
        self._encoder_norms = [(_norm(e.attention_norm), _norm(e.ffn_norm)) for e in encoder]
        self._decoder_norms = [
            (_norm(e.self_norm), _norm(e.cross_norm), _norm(e.ffn_norm)) for e in decoder
        ]
        self._last_norms = _norm(backbone.encoder_norm), _norm(backbone.decoder_norm)
        crosses = [layer.cross_attention for layer in decoder]
        keys_values = LinearWeight(
            torch.cat([cross.key_value.weight for cross in crosses]),
            torch.cat([cross.key_value.bias for cross in crosses]),
        )
        self._encoding = _Stack.of(
            [[e.attention.qkv, e.attention.out, e.ffn.inner, e.ffn.outer] for e in encoder],
            keys_values,
            int8=int8,
        )
        self._folding, self._int8 = FoldedWeights(crosses), int8
        output = backbone.output_layer()
        self._decoding = _Stack.of(
            [_decoder_linears(layer) for layer in decoder],
            LinearWeight(output.weight, output.bias),
            int8=int8,
        )

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Computes source states; the memory holds each layer's keys and values (b k i e).

        Its last part is added to all scores: -inf at padding. A short sentence alone becomes a
        LoneSource.
        """
        (b, i), k, d = ids.shape, self._heads, self._d
        x = self._source_embedding(ids).view(b * i, d)
        wanted = None
        if not bool(mask.all()):
            wanted = torch.zeros(b, 1, 1, i).masked_fill_(~mask[:, None, None], -torch.inf)
        program = self._encoding.for_rows(b * i)
        for norms, (qkv, out, inner, outer) in zip(
            self._encoder_norms, program.layers, strict=True
        ):
            seen = qkv(torch.layer_norm(x, *norms[0])).view(b, i, 3, k, -1).permute(2, 0, 3, 1, 4)
            context = F.scaled_dot_product_attention(seen[0], seen[1], seen[2], wanted)
            x = out(context.transpose(1, 2).reshape(b * i, d)).add_(x)
            hidden = inner(torch.layer_norm(x, *norms[1])).relu_()
            x = outer(hidden).add_(x)
        x = torch.layer_norm(x, *self._last_norms[0])
        source, keys_values = Source(x.view(b, i, d), mask), program.last(x)
        if wanted is None and not self._int8 and pays_alone(b, i):
            return self._folding.fold(source, keys_values)
        parts = keys_values.view(b, i, 2 * self._layers, k, -1).permute(2, 0, 3, 1, 4).contiguous()
        hidden = torch.zeros(b, k, i) if wanted is None else wanted[:, 0].expand(b, k, i)
        return replace(source, memory=(*parts.unbind(0), hidden))

    def start(self, rows: int) -> KeyValueBuffers:
        """Returns room for `rows` empty hypotheses."""
        shape = BufferShape(self._layers, self._heads, self._d // self._heads)
        return KeyValueBuffers(shape, rows)

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        buffers: KeyValueBuffers,
        length: int,
        *,
        attention: bool = False,
    ) -> Decoded:
        """Reads token number `length` of each hypothesis and writes it into the buffers."""
        (b, n), k, d = last.shape, self._heads, self._d
        rows, weights = b * n, None
        views, end, widths = buffers.at(length), length + 1, (d, 2 * d)
        x = self._embed(last.view(rows), length)
        program = self._decoding.for_rows(rows)
        for number, (norms, linears) in enumerate(
            zip(self._decoder_norms, program.layers, strict=True)
        ):
            qkv, out, query, cross_out, inner, outer = linears
            asked, read = qkv(torch.layer_norm(x, *norms[0])).split_with_sizes(widths, 1)
            views.layers[number][length].copy_(read)
            context = F.scaled_dot_product_attention(
                asked.view(rows, k, 1, -1),
                views.keys[number].narrow(2, 0, end),
                views.values[number].narrow(2, 0, end),
            )
            x = out(context.view(rows, d)).add_(x)
            normed, explain = torch.layer_norm(x, *norms[1]), number == self._aligning_layer
            if isinstance(source, LoneSource):
                biases, keys, values = source.folded[number]
                shares = torch.addmm(biases, normed, keys).view(n, k, -1).softmax(-1)
                seen = torch.addmm(self._folding.output_biases[number], shares.view(n, -1), values)
                weights = shares.mean(1)[None] if attention and explain else weights
            else:
                asked = query(normed).view(b, n, k, -1)
                context, shown = self._attend(source, number, asked, attention and explain)
                seen, weights = cross_out(context), weights if shown is None else shown
            x = seen.add_(x)
            hidden = inner(torch.layer_norm(x, *norms[2])).relu_()
            x = outer(hidden).add_(x)
        return Decoded(torch.layer_norm(x, *self._last_norms[1]).view(b, n, d), weights)

    def _attend(
        self, source: Source, layer: int, asked: Float[Tensor, "b n k e"], explain: bool
    ) -> tuple[Float[Tensor, "r d"], Float[Tensor, "b n i"] | None]:
        """Attends to the sources of a batch; returns the weights if they are asked for.

        Two batched products: on a CPU they take less time than torch's fused attention does for so
        few queries.
        """
        (b, n, k, e), memory = asked.shape, source.memory
        queries = asked.transpose(1, 2).reshape(b * k, n, e)
        keys, values = memory[2 * layer].flatten(0, 1), memory[2 * layer + 1].flatten(0, 1)
        hidden = memory[-1].reshape(b * k, 1, -1)
        shares = torch.baddbmm(hidden, queries, keys.mT, alpha=e**-0.5).softmax(-1)
        context = torch.bmm(shares, values).view(b, k, n, e).transpose(1, 2)
        weights = shares.view(b, k, n, -1).mean(1) if explain else None
        return context.reshape(-1, self._d), weights

    def _embed(self, ids: Int[Tensor, " r"], position: int) -> Float[Tensor, "r d"]:
        embedding = self._target_embedding
        if position >= len(embedding.table):
            return embedding(ids[:, None], position)[:, 0]
        words = torch.embedding(embedding.embedding.weight, ids)
        return torch.add(embedding.table[position], words, alpha=math.sqrt(self._d))

    def logits(self, readout: Float[Tensor, "r d"]) -> Float[Tensor, "r v"]:
        """Applies the output layer."""
        return self._decoding.for_rows(len(readout)).last(readout)


def _decoder_linears(layer: DecoderLayer) -> list[nn.Linear]:
    own, cross, ffn = layer.self_attention, layer.cross_attention, layer.ffn
    return [own.qkv, own.out, cross.query, cross.out, ffn.inner, ffn.outer]


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(tuple(norm.normalized_shape), norm.weight, norm.bias, norm.eps)
