"""What a model is, in a few lines for a person."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.config import ModelConfig, SeparatorConfig
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel, find_model

__all__ = ["Parameters", "count_parameters", "summarise"]


@dataclass(frozen=True)
class Parameters:
    """How many there are: of all, but for the embeddings, and but for what only training needs."""

    total: int
    without_embeddings: int
    to_translate_with: int


def count_parameters(model: Seq2Seq) -> Parameters:
    """Every parameter once, shared ones too."""
    total = sum(p.numel() for p in model.parameters())
    tables = ("embedding", ".lexicon.")  # a row for each word of a vocabulary
    embeddings = sum(
        p.numel() for name, p in model.named_parameters() if any(part in name for part in tables)
    )
    idle = sum(p.numel() for name, p in model.named_parameters() if _is_idle(name))
    return Parameters(total, total - embeddings, total - idle)


def _is_idle(name: str) -> bool:
    """Whether translations do without it: heads serve the losses and analysis alone."""
    return ".heads." in name or name.startswith("word_prediction.")


def summarise(trained: TrainedModel, path: Path) -> dict[str, Any]:
    """Name to value, in reading order; parameters with and without the embeddings."""
    config, parameters = trained.config, count_parameters(trained.model)
    shape = config.model
    return {
        "model": str(find_model(path)),
        "languages": f"{config.data.source_language} -> {config.data.target_language}",
        "backbone": shape.backbone,
        "layers": f"{shape.encoder_layers} + {shape.decoder_layers}",
        "width": _width(shape),
        "past and future": _separator(shape.separator),
        "copying": "yes" if shape.copying else "no",
        "vocabulary": f"{len(trained.tokenizers.source)} + {len(trained.tokenizers.target)}"
        f"{' (one for both)' if trained.tokenizers.joint else ''}, {config.tokenizer.kind}",
        "parameters": parameters.total,
        "parameters without embeddings": parameters.without_embeddings,
        "parameters to translate with": parameters.to_translate_with,
        "decoding": ", ".join(f"{k} {v}" for k, v in config.decode.model_dump().items()),
    }


def _width(shape: ModelConfig) -> str:
    if shape.backbone == "transformer":
        return f"{shape.d_model} / {shape.d_ffn}, {shape.heads} heads"
    layer = f", future layer {shape.future_layer}" if shape.backbone == "pfrnn" else ""
    return f"{shape.d_model}, embeddings {shape.d_embedding or shape.d_model}{layer}"


def _separator(config: SeparatorConfig) -> str:
    if config.kind == "none":
        return "none"
    past, future, redundant = config.counts
    how = config.kind
    if how == "gdr":
        how += f", {config.agreement} agreement, {config.num_iterations} iterations"
    return f"{how}, capsules {past} + {future} + {redundant}"
