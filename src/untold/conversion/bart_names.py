"""The names that BART, Marian and Pegasus give to the weights of a Transformer.

Each is paired with a view of our own weight: who imports writes to the views, who exports reads
them. Embeddings are left out, because programs share them in different ways.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from torch import Tensor, nn

from untold.models.layers import FeedForward
from untold.models.transformer import (
    CrossAttention,
    DecoderLayer,
    EncoderLayer,
    SelfAttention,
    Transformer,
)

__all__ = ["bart_tensors"]

_PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def bart_tensors(ours: Transformer) -> dict[str, Tensor]:
    """Maps names such as encoder.layers.0.fc1.weight to views of the weights."""
    found: dict[str, Tensor] = {}
    for side, norm in (("encoder", ours.encoder_norm), ("decoder", ours.decoder_norm)):
        found |= _norm(f"{side}.layer_norm", norm)
    for number, layer in enumerate(cast("list[EncoderLayer]", ours.encoder)):
        found |= dict(_encoder_layer(f"encoder.layers.{number}", layer))
    for number, layer in enumerate(cast("list[DecoderLayer]", ours.decoder)):
        found |= dict(_decoder_layer(f"decoder.layers.{number}", layer))
    return found


def _encoder_layer(here: str, layer: EncoderLayer) -> Iterator[tuple[str, Tensor]]:
    yield from _self_attention(f"{here}.self_attn", layer.attention)
    yield from _norm(f"{here}.self_attn_layer_norm", layer.attention_norm, layer.attention_end)
    yield from _feed_forward(here, layer.ffn)
    yield from _norm(f"{here}.final_layer_norm", layer.ffn_norm, layer.ffn_end)


def _decoder_layer(here: str, layer: DecoderLayer) -> Iterator[tuple[str, Tensor]]:
    yield from _self_attention(f"{here}.self_attn", layer.self_attention)
    yield from _norm(f"{here}.self_attn_layer_norm", layer.self_norm, layer.self_end)
    yield from _cross_attention(f"{here}.encoder_attn", layer.cross_attention)
    yield from _norm(f"{here}.encoder_attn_layer_norm", layer.cross_norm, layer.cross_end)
    yield from _feed_forward(here, layer.ffn)
    yield from _norm(f"{here}.final_layer_norm", layer.ffn_norm, layer.ffn_end)


def _self_attention(here: str, own: SelfAttention) -> Iterator[tuple[str, Tensor]]:
    yield from _chunks(here, _PROJECTIONS, own.qkv)
    yield from _linear(f"{here}.out_proj", own.out)


def _cross_attention(here: str, cross: CrossAttention) -> Iterator[tuple[str, Tensor]]:
    yield from _linear(f"{here}.q_proj", cross.query)
    yield from _chunks(here, _PROJECTIONS[1:], cross.key_value)
    yield from _linear(f"{here}.out_proj", cross.out)


def _feed_forward(here: str, ffn: FeedForward) -> Iterator[tuple[str, Tensor]]:
    yield from _linear(f"{here}.fc1", ffn.inner)
    yield from _linear(f"{here}.fc2", ffn.outer)


def _chunks(here: str, names: Sequence[str], linear: nn.Linear) -> Iterator[tuple[str, Tensor]]:
    """Divides a linear layer that computes several projections at once."""
    parts = (each.detach().chunk(len(names)) for each in (linear.weight, linear.bias))
    for name, weight, bias in zip(names, *parts, strict=True):
        yield f"{here}.{name}.weight", weight
        yield f"{here}.{name}.bias", bias


def _linear(here: str, linear: nn.Linear) -> Iterator[tuple[str, Tensor]]:
    yield f"{here}.weight", linear.weight.detach()
    yield f"{here}.bias", linear.bias.detach()


def _norm(here: str, *places: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yields the norm that stands in one of the places; a stack may have none."""
    for each in places:
        if isinstance(each, nn.LayerNorm):
            yield f"{here}.weight", each.weight.detach()
            yield f"{here}.bias", each.bias.detach()
