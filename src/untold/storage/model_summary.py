"""Summarises a model for `untold info`: shape, vocabulary, parameters, decoding."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.config import SeparatorConfig
from untold.corpus.tokenizer import SentencePieceTokenizer
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel, find_model, hugging_face_name

__all__ = ["Parameters", "count_parameters", "summarise"]


@dataclass(frozen=True)
class Parameters:
    """Counts parameters: all, all but embeddings, and all that translations need."""

    total: int
    without_embeddings: int
    to_translate_with: int


def count_parameters(model: Seq2Seq) -> Parameters:
    """Counts every parameter once; a shared one counts once, too."""
    total = sum(p.numel() for p in model.parameters())
    # These have a row for each word of a vocabulary; the latter ones in Hugging Face models.
    tables = ("embedding", ".lexicon.", ".shared.", "embed_tokens", "lm_head")
    embeddings = sum(
        p.numel() for name, p in model.named_parameters() if any(part in name for part in tables)
    )
    idle = sum(p.numel() for name, p in model.named_parameters() if _is_idle(name))
    return Parameters(total, total - embeddings, total - idle)


def _is_idle(name: str) -> bool:
    """Returns True for the heads, which serve losses and analysis but no translation."""
    return ".heads." in name or name.startswith("word_prediction.")


def summarise(trained: TrainedModel, path: Path) -> dict[str, Any]:
    """Maps names to values, in reading order."""
    config, parameters = trained.config, count_parameters(trained.model)
    shape = config.model
    return {
        "model": str(path if hugging_face_name(path) else find_model(path)),
        "languages": f"{config.data.source_language} -> {config.data.target_language}",
        "backbone": shape.backbone,
        **shape.describe(),
        "past and future": _separator(shape.separator),
        "copying": "yes" if shape.copying else "no",
        "vocabulary": f"{len(trained.tokenizers.source)} + {len(trained.tokenizers.target)}"
        f"{' (one for both)' if trained.tokenizers.joint else ''}, {_tokenizer_kind(trained)}",
        "parameters": parameters.total,
        "parameters without embeddings": parameters.without_embeddings,
        "parameters to translate with": parameters.to_translate_with,
        "decoding": ", ".join(f"{k} {v}" for k, v in config.decode.model_dump().items()),
    }


def _tokenizer_kind(trained: TrainedModel) -> str:
    if isinstance(trained.tokenizers.source, SentencePieceTokenizer):
        return trained.config.tokenizer.kind
    return "the tokenizer that the model came with"


def _separator(config: SeparatorConfig) -> str:
    if config.kind == "none":
        return "none"
    past, future, redundant = config.counts
    how = config.kind
    if how == "gdr":
        how += f", {config.agreement} agreement, {config.num_iterations} iterations"
    return f"{how}, capsules {past} + {future} + {redundant}"
