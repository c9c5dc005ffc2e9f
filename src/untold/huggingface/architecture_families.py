"""Says which architectures of transformers can be wrapped, and where they differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from untold.errors import UntoldError, shorten
from untold.huggingface.bart_parts import bart_parts
from untold.models.transformer_parts import SourceFrame, TransformerParts

__all__ = ["FAMILIES", "OWN_TYPE", "ArchitectureFamily", "refuse_architecture"]

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
