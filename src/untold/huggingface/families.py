"""Which architectures of transformers can be wrapped, and where they differ.

The family of BART names its modules alike. Its members differ in where the norms stand, in a norm
after the embedding, and in their positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError, shorten
from untold.models.backbone import LayerParts, LinearWeight, SourceFrame, TransformerParts

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


@dataclass(frozen=True)
class _ScaledEmbedding:
    """Embeds tokens: norm(scale E[w] + positions[t])."""

    words: Float[Tensor, "v d"]
    scale: float
    positions: Float[Tensor, "t d"]
    norm: nn.Module

    def __call__(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        words = torch.embedding(self.words, ids)
        return self.norm(torch.add(self.positions[: ids.shape[1]], words, alpha=self.scale))

    def at(self, ids: Int[Tensor, " r"], position: int) -> Float[Tensor, "r d"]:
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
        keys_values=LinearWeight.of(
            *(part for cross in crosses for part in (cross.k_proj, cross.v_proj))
        ),
        source_embedding=_embedding(encoder),
        target_embedding=_embedding(decoder),
        aligning_layer=max(0, len(crosses) - 2),
        frame=frame,
        target_before=target_before,
        longest=config.max_position_embeddings,
    )


def _layer_parts(layer: Any) -> LayerParts:
    """Lists the parts of an encoder layer, or of a decoder layer, which also reads the source."""
    attention, cross = layer.self_attn, getattr(layer, "encoder_attn", None)
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    linears = [LinearWeight.of(*projections), LinearWeight.of(attention.out_proj)]
    norms = [layer.self_attn_layer_norm]
    if cross is not None:
        linears += [LinearWeight.of(cross.q_proj), LinearWeight.of(cross.out_proj)]
        norms.append(layer.encoder_attn_layer_norm)
    linears += [LinearWeight.of(layer.fc1), LinearWeight.of(layer.fc2)]
    return LayerParts(linears, [*norms, layer.final_layer_norm])


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


ReadParts = Callable[[Any, SourceFrame | None, tuple[int, ...]], TransformerParts | None]
OWN_TYPE = "untold_past_future"  # the model_type of a folder with past and future


@dataclass(frozen=True)
class ArchitectureFamily:
    """Says where a family of models keeps what the adapter needs."""

    layers: str  # of an encoder or a decoder
    cross_attention: Callable[[Any], nn.Module]  # of a layer of a decoder
    keys: str
    values: str
    heads: str
    dropout: str  # a key of its configuration
    parts: ReadParts | None = None  # takes a model apart, for translation on a CPU


def _bart_attention(layer: Any) -> nn.Module:
    return layer.encoder_attn


def _t5_attention(layer: Any) -> nn.Module:
    return layer.layer[1].EncDecAttention


_BART = ArchitectureFamily(
    "layers", _bart_attention, "k_proj", "v_proj", "num_heads", "dropout", bart_parts
)
FAMILIES: Mapping[str, ArchitectureFamily] = {
    "marian": _BART,
    "bart": _BART,
    "mbart": _BART,
    "m2m_100": _BART,
    "pegasus": _BART,
    "t5": ArchitectureFamily("block", _t5_attention, "k", "v", "n_heads", "dropout_rate"),
}


def refuse_architecture(architecture: Mapping[str, Any], where: str) -> None:
    """Refuses models that the adapter does not know, in one sentence."""
    kind = architecture.get("model_type")
    if kind in FAMILIES:
        return
    if kind == OWN_TYPE:
        raise UntoldError(
            f"{where}: has past and future already: name it without hf:, or read it with "
            "from_pretrained"
        )
    known = "Marian, BART, mBART, M2M100 (NLLB), Pegasus and T5"
    if not architecture.get("is_encoder_decoder"):
        raise UntoldError(
            f"{where}: {shorten(kind)} is no encoder-decoder, and past and future need a source: "
            f"choose one of {known}"
        )
    raise UntoldError(f"{where}: {shorten(kind)} is not supported: choose one of {known}")
