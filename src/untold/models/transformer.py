"""The Transformer: norms before or after, sinusoidal positions, tied embeddings, cached decoding.

Shape letters are those of layers.py; m and r are hypotheses before and after a selection.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from untold.config.model import ModelConfig
from untold.config.section import DropRate, Layers, Width
from untold.errors import shorten
from untold.models.backbone import (
    Backbone,
    Decoded,
    DecoderState,
    LayerParts,
    LinearWeight,
    Source,
    TransformerParts,
    Widths,
    as_norm,
)
from untold.models.layers import Dropout, FeedForward, PositionalEmbedding, attend, fused_attention

# A full cache grows by this many positions, so that most steps need not move it.
_ROOM = 8

_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_model": 128, "d_ffn": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "d_ffn": 1024, "heads": 4, "encoder_layers": 6, "decoder_layers": 6},
    "base": {"d_model": 512, "d_ffn": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
    "big": {"d_model": 1024, "d_ffn": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6},
}


class TransformerConfig(ModelConfig):
    """The settings of a Transformer."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = _PRESETS
    legacy_keys: ClassVar[Mapping[str, Any]] = {
        "attention_coverage": "none",
        "future_layer": "gru-i",
    }

    backbone: str = "transformer"
    d_model: Width = 512
    """The width of embeddings and states; even, and a multiple of heads."""
    heads: Annotated[int, Field(ge=1, le=1024)] = 8
    """Heads of each attention."""
    encoder_layers: Layers = 6
    """Layers of the encoder."""
    decoder_layers: Layers = 6
    """Layers of the decoder."""
    attention_dropout: DropRate = 0.0
    """Dropout of attention weights."""
    activation_dropout: DropRate = 0.0
    """Dropout inside the feed-forward layers."""
    tie_embeddings: bool = True
    """Whether the output layer uses the target embedding."""
    norm: Literal["pre", "post"] = "pre"
    """Whether norms come before the sublayers, or after them as in Marian's models."""
    activation: Literal["relu", "swish", "gelu"] = "relu"
    """The non-linearity inside the feed-forward layers."""

    @classmethod
    def drop_legacy_keys(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Drops keys that mean nothing to a Transformer, and `d_embedding` if it is d_model."""
        kept = super().drop_legacy_keys(values)
        width, given = kept.get("d_model"), kept.pop("d_embedding", None)
        if given not in (None, width):
            raise ValueError(
                f"d_embedding {shorten(given)}: a transformer's embeddings are as wide as "
                f"d_model, here {shorten(width)}: leave d_embedding out"
            )
        return kept

    @model_validator(mode="after")
    def _heads_divide(self) -> "TransformerConfig":
        if self.d_model % self.heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of heads {self.heads}")
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} is odd: sinusoidal positions need it even")
        return self

    def describe(self) -> dict[str, str]:
        """Describes layers and widths."""
        described = {
            "layers": f"{self.encoder_layers} + {self.decoder_layers}",
            "width": f"{self.d_model} / {self.d_ffn}, {self.heads} heads",
        }
        if (self.norm, self.activation) != ("pre", "relu"):
            described["sublayers"] = f"norm {self.norm}, activation {self.activation}"
        return described


@dataclass(frozen=True)
class KVCache:
    """Holds keys and values of the `length` tokens read so far, one tensor a layer.

    The tensors have room for more positions. A selection is noted in `rows` and carried out by the
    next step, which copies the memory anyway.
    """

    layers: tuple[Float[Tensor, "m 2 k room e"], ...]
    length: int = 0
    rows: Int[Tensor, " r"] | None = None

    def select(self, rows: Int[Tensor, " s"]) -> "KVCache":
        """Returns the memory of the hypotheses at `rows`."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def roomy_copy(self, layer: int) -> Float[Tensor, "r 2 k room e"]:
        """Copies the selected memory of one layer, with room at position `length`."""
        memory = self.layers[layer]
        if self.length == memory.shape[3]:
            memory = F.pad(memory, (0, 0, 0, _ROOM))
        return memory.clone() if self.rows is None else memory.index_select(0, self.rows)


class Transformer(Backbone):
    """Vaswani et al. (2017) with the norms before the sublayers and one after each stack.

    With `norm = "post"` each sublayer is followed by its norm, and nothing follows a stack.
    """

    config_class = TransformerConfig

    def __init__(
        self, config: TransformerConfig, vocabularies: tuple[int, int], *, shared: bool
    ) -> None:
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
        self.encoder_norm = _norm(config, "pre")
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.decoder_norm = _norm(config, "pre")
        self.output = None if config.tie_embeddings else nn.Embedding(target_size, config.d_model)
        # The layer before the last: its attention follows word alignments best.
        self.aligning_layer = max(0, config.decoder_layers - 2)
        self.apply(_initialise)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Computes source states, and the keys and values of every decoder layer."""
        x = self.source_embedding(ids)
        wanted = _wanted(mask)
        for layer in self.encoder:
            x = layer(x, wanted)
        x = self.encoder_norm(x)
        memory = tuple(
            layer.cross_attention.remember(x) for layer in cast("list[DecoderLayer]", self.decoder)
        )
        return Source(x, mask, memory)

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Computes all positions at once under a causal mask."""
        x = self.target_embedding(prefix)
        wanted, weights = _wanted(source.mask), None
        for number, layer in enumerate(cast("list[DecoderLayer]", self.decoder)):
            seen = layer.self_attention(layer.self_norm(x), None, causal=True)
            x = layer.self_end(layer.dropout.add(x, seen))
            explain = attention and number == self.aligning_layer
            x, shown = layer.read_source(x, source.memory[number], wanted, explain=explain)
            weights = shown if explain else weights
        return Decoded(self.decoder_norm(x), weights)

    def start(self, source: Source, beams: int) -> KVCache:
        """Returns empty caches."""
        rows = source.states.shape[0] * beams
        return KVCache(
            tuple(
                source.states.new_empty(rows, 2, layer.heads, 0, self.d_model // layer.heads)
                for layer in cast("list[DecoderLayer]", self.decoder)
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
        """Reads one more token of each hypothesis; the n beams of a sentence share its memory."""
        assert isinstance(state, KVCache)
        b, n = last.shape
        x = self.target_embedding(last.reshape(-1, 1), state.length)
        wanted, weights, layers = _wanted(source.mask), None, []
        for number, layer in enumerate(cast("list[DecoderLayer]", self.decoder)):
            layers.append(state.roomy_copy(number))
            seen = layer.self_attention.step(layer.self_norm(x), layers[-1], state.length)
            x = layer.self_end(x + seen).view(b, n, -1)
            explain = attention and number == self.aligning_layer
            x, shown = layer.read_source(x, source.memory[number], wanted, explain=explain)
            weights = shown if explain else weights
            x = x.view(b * n, 1, -1)
        states = self.decoder_norm(x).view(b, n, -1)
        return Decoded(states, weights), KVCache(tuple(layers), state.length + 1)

    def output_embedding(self) -> Float[Tensor, "v d"]:
        """Returns the target embedding, or the output's own if tie_embeddings is off."""
        return (self.output or self.target_embedding.embedding).weight

    def parts(self) -> TransformerParts | None:
        """Describes itself, unless a subclass changes what it does."""
        encoder = cast("list[EncoderLayer]", list(self.encoder))
        decoder = cast("list[DecoderLayer]", list(self.decoder))
        if type(self) is not Transformer or not decoder:
            return None
        return TransformerParts(
            width=self.d_model,
            heads=decoder[0].heads,
            activation=decoder[0].ffn.activation,
            encoder=[layer.parts() for layer in encoder],
            decoder=[layer.parts() for layer in decoder],
            encoder_norm=as_norm(self.encoder_norm),
            decoder_norm=as_norm(self.decoder_norm),
            keys_values=LinearWeight.of(*(layer.cross_attention.key_value for layer in decoder)),
            source_embedding=self.source_embedding,
            target_embedding=self.target_embedding,
            aligning_layer=self.aligning_layer,
        )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: each adds to x what it makes of it.

    x + sublayer(norm(x)), or end(x + sublayer(x)) if norms come after; the other is no norm
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm, self.attention_end = _norm(config, "pre"), _norm(config, "post")
        self.ffn = _feed_forward(config)
        self.ffn_norm, self.ffn_end = _norm(config, "pre"), _norm(config, "post")
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "b i d"], mask: Bool[Tensor, "b 1 1 i"] | None
    ) -> Float[Tensor, "b i d"]:
        """Lets every position attend to every real position."""
        seen = self.attention(self.attention_norm(x), mask, causal=False)
        x = self.attention_end(self.dropout.add(x, seen))
        return self.ffn_end(self.dropout.add(x, self.ffn(self.ffn_norm(x))))

    def parts(self) -> LayerParts:
        """Lists weights and norms; a layer has norms on one side of its sublayers."""
        own, ffn = self.attention, self.ffn
        places = (self.attention_norm, self.ffn_norm, self.attention_end, self.ffn_end)
        return LayerParts.of((own.qkv, own.out, ffn.inner, ffn.outer), places)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.self_attention = SelfAttention(config)
        self.self_norm, self.self_end = _norm(config, "pre"), _norm(config, "post")
        self.cross_attention = CrossAttention(config)
        self.cross_norm, self.cross_end = _norm(config, "pre"), _norm(config, "post")
        self.ffn = _feed_forward(config)
        self.ffn_norm, self.ffn_end = _norm(config, "pre"), _norm(config, "post")
        self.dropout = Dropout(config.dropout)

    def read_source(
        self,
        x: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b 2 k i e"],
        mask: Bool[Tensor, "b 1 1 i"] | None,
        *,
        explain: bool,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t i"] | None]:
        """Applies cross-attention and feed-forward; `explain` returns attention weights as well."""
        context, weights = self.cross_attention(self.cross_norm(x), memory, mask, explain=explain)
        x = self.cross_end(self.dropout.add(x, context))
        return self.ffn_end(self.dropout.add(x, self.ffn(self.ffn_norm(x)))), weights

    def parts(self) -> LayerParts:
        """Lists weights and norms; a layer has norms on one side of its sublayers."""
        own, cross, ffn = self.self_attention, self.cross_attention, self.ffn
        linears = (own.qkv, own.out, cross.query, cross.out, ffn.inner, ffn.outer)
        before = (self.self_norm, self.cross_norm, self.ffn_norm)
        return LayerParts.of(linears, (*before, self.self_end, self.cross_end, self.ffn_end))


class SelfAttention(nn.Module):
    """Multi-head self-attention; one product computes queries, keys and values."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def forward(
        self, x: Float[Tensor, "r s d"], mask: Bool[Tensor, "r 1 1 s"] | None, *, causal: bool
    ) -> Float[Tensor, "r s d"]:
        """Attends at all positions at once."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        p = self.attention_dropout if self.training else 0.0
        context = fused_attention((q, k, v), mask, p, causal=causal)
        return self.out(context.transpose(1, 2).flatten(2))

    def step(
        self, x: Float[Tensor, "r 1 d"], memory: Float[Tensor, "r 2 k room e"], position: int
    ) -> Float[Tensor, "r 1 d"]:
        """Attends from one position to itself and those before; writes its own to the memory."""
        qkv = self.qkv(x).view(x.shape[0], 3, self.heads, 1, -1)
        memory[:, :, :, position : position + 1] = qkv[:, 1:]
        keys, values = memory[:, :, :, : position + 1].unbind(1)
        context = F.scaled_dot_product_attention(qkv[:, 0], keys, values)
        return self.out(context.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """Multi-head attention to the source, whose keys and values are computed beforehand."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key_value = nn.Linear(config.d_model, 2 * config.d_model)
        self.out = nn.Linear(config.d_model, config.d_model)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b 2 k i e"]:
        """Computes keys and values of the source, once a sentence."""
        return self.key_value(states).unflatten(-1, (2, self.heads, -1)).permute(0, 2, 3, 1, 4)

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b 2 k i e"],
        mask: Bool[Tensor, "b 1 1 i"] | None,
        *,
        explain: bool,
    ) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t i"] | None]:
        """Attends from each position to the real source positions."""
        queries = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        keys, values = memory.unbind(1)
        if explain:
            context, weights = attend(queries, keys, values, mask)
        else:
            p = self.attention_dropout if self.training else 0.0
            context, weights = fused_attention((queries, keys, values), mask, p), None
        return self.out(context.transpose(1, 2).flatten(2)), weights


def _norm(config: TransformerConfig, place: str) -> nn.Module:
    """Makes the norm that stands before or after a sublayer, or what does nothing in its place."""
    return nn.LayerNorm(config.d_model) if config.norm == place else nn.Identity()


def _feed_forward(config: TransformerConfig) -> FeedForward:
    dropout, activation = config.activation_dropout, config.activation
    return FeedForward(config.d_model, config.d_ffn, dropout, activation=activation)


def _wanted(mask: Bool[Tensor, "b i"]) -> Bool[Tensor, "b 1 1 i"] | None:
    """Returns the attention mask; None if nothing is padded, which is faster.

    A graph that is exported serves all masks, so it cannot look at one.
    """
    if not torch.compiler.is_compiling() and bool(mask.all()):
        return None
    return mask[:, None, None, :]


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
