"""Settings of the corpora and of the tokenizer.

Settings of word alignment.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from untold.config.section import DropRate, Fraction, Section, as_tuple


class CorpusConfig(Section):
    """Names one source of sentence pairs: two plain files, one table file, or a dataset."""

    source: str | None = None
    """A text file with a source sentence on each line, plain or compressed, or a pattern (*.en)."""
    target: str | None = None
    """A text file with the translations, line by line, or a pattern of as many files."""
    path: str | None = None
    """A table instead: a .tsv, .jsonl or .parquet file."""
    dataset: str | None = None
    """A Hugging Face dataset instead: its name, or a directory."""
    split: str = "train"
    """The part of the dataset."""
    columns: tuple[str, str] | None = None
    """The columns of source and target, by name, or by number in a .tsv file."""

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
    """The code of the source language, such as en, for `info` and pictures."""
    target_language: str = "tgt"
    """The code of the target language."""
    root: str = "."
    """The directory that all paths of this section start from."""
    train: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_corpora)] = ()
    """The corpus to train on, or a list of them; data.train lists the keys of a corpus."""
    valid: CorpusConfig | None = None
    """The corpus that training is validated on, with the same keys."""
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Pairs with more pieces on a side are dropped; longer lines are translated in parts."""
    max_ratio: Annotated[float, Field(gt=1.0, le=1000.0)] | None = None
    """Pairs whose longer side has more than this many times the pieces of the other are dropped."""
    max_words: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Pairs with more words, parted by blanks, on a side are dropped; translation has no limit."""
    lowercase: bool = False
    """Whether both sides are lower-cased, in training and in translation."""
    bleu_tokenize: Literal["13a", "char", "intl", "none", "zh"] = "13a"
    """How BLEU splits words when it validates and evaluates; none for tokenised text."""


class TokenizerConfig(Section):
    """Controls how text is split into pieces. `joint` gives both languages one vocabulary."""

    kind: Literal["bpe", "unigram", "char", "word"] = "bpe"
    """How text is split: into subwords by bpe or unigram, into characters, or at blanks."""
    size: Annotated[int, Field(ge=16, le=1_000_000)] = 32_000
    """The most entries of a vocabulary; a small corpus has fewer."""
    joint: bool = True
    """Whether both languages share one vocabulary, and with it their embeddings."""
    byte_fallback: bool = False
    """Whether characters outside the vocabulary are spelt in bytes instead of being unknown."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 1.0  # sentencepiece's limits
    """The share of the corpus's characters that the vocabulary covers."""
    dropout: DropRate = 0.0
    """The probability that a merge of bpe is left out in training, anew in each epoch."""

    @model_validator(mode="after")
    def _dropout_needs_merges(self) -> "TokenizerConfig":
        if self.dropout and self.kind != "bpe":
            raise ValueError(f"dropout leaves out merges of bpe; {self.kind} has none: set it to 0")
        return self


AlignerKind = Literal["eflomal", "fast_align", "hmm", "ibm1", "ibm2", "ibm4"]
Splitting = Literal["blank", "word", "character", "jieba"]


class AlignerConfig(Section):
    """Chooses the model that links words, and how each side is split into words."""

    kind: AlignerKind = "eflomal"
    """The model that links words."""
    iterations: Annotated[int, Field(ge=1, le=1000)] = (
        5  # of this model and of each model that initialises it; not of eflomal
    )
    """Iterations of this model and of each model that initialises it; not of eflomal."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    """The seed of eflomal, which samples."""
    evidence: Fraction = 0.01
    """A word counts as covered if p(t|s) or p(s|t) is at least this."""
    source_words: Splitting = "blank"
    """How the source is split into words."""
    target_words: Splitting = "blank"
    """How the target is split into words."""
