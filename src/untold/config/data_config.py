"""Settings of the corpora and of the tokenizer."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from untold.config.section import DropRate, Section, as_tuple

__all__ = ["CorpusConfig", "DataConfig", "TokenizerConfig"]


class CorpusConfig(Section):
    """Names one source of sentence pairs: two plain files, one table file, or a dataset."""

    source: str | None = None
    target: str | None = None
    path: str | None = None
    dataset: str | None = None
    split: str = "train"
    columns: tuple[str, str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("columns"), list):
            return data | {"columns": tuple(data["columns"])}
        return data

    @model_validator(mode="after")
    def _one_kind(self) -> "CorpusConfig":
        if (self.source is None) != (self.target is None):
            raise ValueError("plain files come in twos: give both source and target")
        kinds = [self.source, self.path, self.dataset]
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError(
                "give exactly one of: source and target (plain files), path (.tsv, .jsonl, "
                ".parquet), dataset (Hugging Face name or directory)"
            )
        return self


def _as_corpora(value: Any) -> Any:
    return (value,) if isinstance(value, (dict, CorpusConfig)) else as_tuple(value)


class DataConfig(Section):
    """Names the corpora and the pairs to leave out. Paths are relative to `root`."""

    source_language: str = "src"
    target_language: str = "tgt"
    root: str = "."
    train: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_corpora)] = ()
    valid: CorpusConfig | None = None
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 256
    max_ratio: Annotated[float, Field(gt=1.0, le=1000.0)] | None = None
    lowercase: bool = False
    bleu_tokenize: Literal["13a", "char", "intl", "none", "zh"] = "13a"


class TokenizerConfig(Section):
    """Controls how text is split into pieces. `joint` gives both languages one vocabulary."""

    kind: Literal["bpe", "unigram", "char", "word"] = "bpe"
    size: Annotated[int, Field(ge=16, le=1_000_000)] = 32_000
    joint: bool = True
    byte_fallback: bool = False
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 1.0  # sentencepiece's limits
    dropout: DropRate = 0.0

    @model_validator(mode="after")
    def _dropout_needs_merges(self) -> "TokenizerConfig":
        if self.dropout and self.kind != "bpe":
            raise ValueError(f"dropout leaves out merges of bpe; {self.kind} has none: set it to 0")
        return self
