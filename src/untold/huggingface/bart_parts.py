"""The parts of Marian, BART, mBART, M2M100, NLLB and Pegasus, for preparing them for translation.

They name their modules alike. They differ in where the norms stand, in a norm after the embedding,
and in their positions.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.models.transformer_parts import (
    LayerParts,
    LinearWeight,
    SourceFrame,
    TransformerParts,
)

__all__ = ["bart_parts"]

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


@dataclass(frozen=True)
class _ScaledEmbedding:
    """Embeds tokens: norm(scale E[w] + positions[t])."""

    words: Float[Tensor, "v d"]
    scale: float
    positions: Float[Tensor, "t d"]
    norm: nn.Module

    def __call__(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """Embeds sentences from their beginning."""
        words = torch.embedding(self.words, ids)
        return self.norm(torch.add(self.positions[: ids.shape[1]], words, alpha=self.scale))

    def at(self, ids: Int[Tensor, " r"], position: int) -> Float[Tensor, "r d"]:
        """Embeds tokens that all stand at one position."""
        words = torch.embedding(self.words, ids)
        return self.norm(torch.add(self.positions[position], words, alpha=self.scale))


def bart_parts(
    model: Any, frame: SourceFrame | None, target_before: tuple[int, ...]
) -> TransformerParts | None:
    """Takes a model apart; None if its two stacks differ in more than their number of layers."""
    config, encoder, decoder = model.config, model.get_encoder(), model.get_decoder()
    sides = [getattr(config, f"{side}_attention_heads") for side in ("encoder", "decoder")]
    activation = _ACTIVATIONS.get(config.activation_function)
    if sides[0] != sides[1] or activation is None or not len(decoder.layers):
        return None
    crosses = [layer.encoder_attn for layer in decoder.layers]
    return TransformerParts(
        width=config.d_model,
        heads=sides[0],
        activation=activation,
        encoder=[_layer_parts(layer) for layer in encoder.layers],
        decoder=[_layer_parts(layer) for layer in decoder.layers],
        encoder_norm=getattr(encoder, "layer_norm", None),
        decoder_norm=getattr(decoder, "layer_norm", None),
        keys_values=LinearWeight.of(*(part for each in crosses for part in _keys_values(each))),
        source_embedding=_embedding(encoder),
        target_embedding=_embedding(decoder),
        aligning_layer=max(0, len(crosses) - 2),
        frame=frame,
        target_before=target_before,
        longest=config.max_position_embeddings,
    )


def _layer_parts(layer: Any) -> LayerParts:
    """Lists the parts of an encoder layer, or of a decoder layer, which also reads the source."""
    own, cross = layer.self_attn, getattr(layer, "encoder_attn", None)
    linears = [LinearWeight.of(own.q_proj, own.k_proj, own.v_proj), LinearWeight.of(own.out_proj)]
    norms = [layer.self_attn_layer_norm]
    if cross is not None:
        linears += [LinearWeight.of(cross.q_proj), LinearWeight.of(cross.out_proj)]
        norms.append(layer.encoder_attn_layer_norm)
    linears += [LinearWeight.of(layer.fc1), LinearWeight.of(layer.fc2)]
    return LayerParts(linears, [*norms, layer.final_layer_norm])


def _keys_values(cross: Any) -> tuple[nn.Linear, nn.Linear]:
    return cross.k_proj, cross.v_proj


def _embedding(stack: Any) -> _ScaledEmbedding:
    words, positions = stack.embed_tokens, stack.embed_positions
    # Some keep the factor in the embedding, others beside it; some tables begin with padding.
    scale = getattr(words, "embed_scale", getattr(stack, "embed_scale", 1.0))
    if hasattr(positions, "weights"):  # M2M100
        table = positions.weights[positions.padding_idx + 1 :]
    else:
        table = positions.weight[getattr(positions, "offset", 0) :]
    norm = getattr(stack, "layernorm_embedding", nn.Identity())
    return _ScaledEmbedding(words.weight, float(scale), table, norm)
