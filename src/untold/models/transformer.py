"""The Transformer: pre-norm, sinusoidal positions, tied embeddings, cached decoding.

Shape letters as in layers.py; l is a layer.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.config import ModelConfig
from untold.models.backbone import Backbone, Decoded, DecoderState, Source, Widths
from untold.models.layers import (
    Dropout,
    FeedForward,
    PositionalEmbedding,
    attend,
    merge_heads,
    split_heads,
)

__all__ = [
    "CrossAttention",
    "DecoderLayer",
    "EncoderLayer",
    "KVCache",
    "SelfAttention",
    "Transformer",
]


# Positions by which a full cache grows: a step then seldom moves it to make room.
_ROOM = 8


@dataclass(frozen=True)
class KVCache:
    """Keys and values of the `length` tokens read so far, one tensor a layer, with room for more.

    A selection is noted in `rows` and made by the next step, which copies the memory anyway.
    """

    layers: tuple[Float[Tensor, "m 2 k room e"], ...]
    length: int = 0
    rows: Int[Tensor, " r"] | None = None

    def select(self, rows: Int[Tensor, " s"]) -> "KVCache":
        """The memory of the hypotheses at `rows`."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def roomy_copy(self, layer: int) -> Float[Tensor, "r 2 k room e"]:
        """The selected memory of one layer, to be written to at position `length`."""
        memory = self.layers[layer]
        if self.length == memory.shape[3]:
            memory = F.pad(memory, (0, 0, 0, _ROOM))
        return memory.clone() if self.rows is None else memory.index_select(0, self.rows)


class Transformer(Backbone):
    """Vaswani et al. (2017) with the norms before the sublayers and one after each stack."""

    def __init__(self, config: ModelConfig, vocabularies: tuple[int, int], *, shared: bool) -> None:
        """`vocabularies`: source and target sizes; `shared`: both are one vocabulary."""
        super().__init__()
        self.d_model = config.d_model
        self.widths = Widths(config.d_model, config.d_model, config.d_model)
        source_size, target_size = vocabularies
        target = nn.Embedding(target_size, config.d_model)
        source = target if shared else nn.Embedding(source_size, config.d_model)
        self.target_embedding = PositionalEmbedding(target, config.dropout)
        self.source_embedding = PositionalEmbedding(source, config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.encoder_norm = nn.LayerNorm(config.d_model)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.decoder_norm = nn.LayerNorm(config.d_model)
        self.output = None if config.tie_embeddings else nn.Embedding(target_size, config.d_model)
        # The weights of this layer follow word alignments best: the one before the last.
        self.aligning_layer = max(0, config.decoder_layers - 2)
        self.apply(_initialise)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Source states, and the keys and values that every decoder layer will look up."""
        x = self.source_embedding(ids)
        wanted = _wanted(mask)
        for layer in self.encoder:
            x = layer(x, wanted)
        x = self.encoder_norm(x)
        memory = tuple(layer.cross_attention.remember(x) for layer in self._decoder_layers())
        return Source(x, mask, memory)

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """All positions at once, each blind to what follows it."""
        x = self.target_embedding(prefix)
        wanted, weights = _wanted(source.mask), None
        for number, layer in enumerate(self._decoder_layers()):
            seen = layer.self_attention(layer.self_norm(x), None, causal=True)
            x = layer.dropout.add(x, seen)
            x, weights_here = layer.look_up(
                x,
                source.memory[number],
                wanted,
                explain=attention and number == self.aligning_layer,
            )
            weights = weights_here if weights is None else weights
            x = layer.transform(x)
        return Decoded(self.decoder_norm(x), weights)

    def start(self, source: Source, beams: int) -> KVCache:
        """Nothing read yet."""
        rows = source.states.shape[0] * beams
        return KVCache(
            tuple(
                source.states.new_empty(rows, 2, layer.heads, 0, self.d_model // layer.heads)
                for layer in self._decoder_layers()
            )
        )

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, KVCache]:
        """One more token of each hypothesis; the n beams of a sentence share its memory."""
        assert isinstance(state, KVCache)
        b, n = last.shape
        x = self.target_embedding(last.reshape(-1, 1), state.length)
        wanted, weights, layers = _wanted(source.mask), None, []
        for number, layer in enumerate(self._decoder_layers()):
            layers.append(state.roomy_copy(number))
            seen = layer.self_attention.step(layer.self_norm(x), layers[-1], state.length)
            x = (x + seen).view(b, n, -1)
            x, weights_here = layer.look_up(
                x,
                source.memory[number],
                wanted,
                explain=attention and number == self.aligning_layer,
            )
            weights = weights_here if weights is None else weights
            x = layer.transform(x).view(b * n, 1, -1)
        states = self.decoder_norm(x).view(b, n, -1)
        return Decoded(states, weights), KVCache(tuple(layers), state.length + 1)

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Tied to the target embedding unless the configuration says otherwise."""
        return (self.output or self.target_embedding.embedding).weight

    def _decoder_layers(self) -> list["DecoderLayer"]:
        """As what they are: to type checkers a ModuleList is a list of any modules."""
        return cast("list[DecoderLayer]", list(self.decoder))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each normed before and added after."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.ffn = FeedForward(config.d_model, config.d_ffn, config.activation_dropout)
        self.ffn_norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "b i d"], mask: Bool[Tensor, "b 1 1 i"] | None
    ) -> Float[Tensor, "b i d"]:
        """Every position sees every real one."""
        x = self.dropout.add(x, self.attention(self.attention_norm(x), mask, causal=False))
        return self.dropout.add(x, self.ffn(self.ffn_norm(x)))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.self_attention = SelfAttention(config)
        self.self_norm = nn.LayerNorm(config.d_model)
        self.cross_attention = CrossAttention(config)
        self.cross_norm = nn.LayerNorm(config.d_model)
        self.ffn = FeedForward(config.d_model, config.d_ffn, config.activation_dropout)
        self.ffn_norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def look_up(
        self,
        x: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b 2 k i e"],
        mask: Bool[Tensor, "b 1 1 i"] | None,
        *,
        explain: bool,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t i"] | None]:
        """The sublayer that reads the source; its weights too, if they are to be explained."""
        context, weights = self.cross_attention(self.cross_norm(x), memory, mask, explain=explain)
        return self.dropout.add(x, context), weights

    def transform(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """The feed-forward sublayer."""
        return self.dropout.add(x, self.ffn(self.ffn_norm(x)))


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself; queries, keys and values from one product."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def forward(
        self, x: Float[Tensor, "r s d"], mask: Bool[Tensor, "r 1 1 s"] | None, *, causal: bool
    ) -> Float[Tensor, "r s d"]:
        """All positions at once."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        p = self.attention_dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(q, k, v, mask, p, is_causal=causal)
        return self.out(merge_heads(context))

    def step(
        self, x: Float[Tensor, "r 1 d"], memory: Float[Tensor, "r 2 k room e"], position: int
    ) -> Float[Tensor, "r 1 d"]:
        """One position, over those before it and itself; writes its own to the memory."""
        qkv = self.qkv(x).view(x.shape[0], 3, self.heads, 1, -1)
        memory[:, :, :, position : position + 1] = qkv[:, 1:]
        keys, values = memory[:, :, :, : position + 1].unbind(1)
        context = F.scaled_dot_product_attention(qkv[:, 0], keys, values)
        return self.out(merge_heads(context))


class CrossAttention(nn.Module):
    """Multi-head attention to the source, whose keys and values are remembered."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key_value = nn.Linear(config.d_model, 2 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b 2 k i e"]:
        """Keys and values of the source, computed once a sentence."""
        return self.key_value(states).unflatten(-1, (2, self.heads, -1)).permute(0, 2, 3, 1, 4)

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b 2 k i e"],
        mask: Bool[Tensor, "b 1 1 i"] | None,
        *,
        explain: bool,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t i"] | None]:
        """Each position looks at the real source positions."""
        queries = split_heads(self.query(x), self.heads)
        keys, values = memory.unbind(1)
        if explain:
            context, weights = attend(queries, keys, values, mask)
        else:
            p = self.attention_dropout if self.training else 0.0
            context, weights = F.scaled_dot_product_attention(queries, keys, values, mask, p), None
        return self.out(merge_heads(context)), weights


def _wanted(mask: Bool[Tensor, "b i"]) -> Bool[Tensor, "b 1 1 i"] | None:
    """The attention mask; None where nothing is padded, which is faster."""
    return None if bool(mask.all()) else mask[:, None, None, :]


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
