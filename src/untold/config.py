"""Every setting of untold: its name, type, limits and default. The only home of defaults.

Settings come from a TOML file and `--set section.key=value`; types are strict, and an unknown key
is an error that names the nearest known one.
"""

import copy
import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from untold.errors import UntoldError

__all__ = [
    "PRESETS",
    "SEPARATOR_PRESETS",
    "Config",
    "CorpusConfig",
    "DataConfig",
    "DecodeConfig",
    "ModelConfig",
    "SeparatorConfig",
    "TokenizerConfig",
    "TrainConfig",
    "load_config",
    "override",
    "parse_config",
    "parse_config_json",
]

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(ge=0.0)]


class _Section(BaseModel):
    """Frozen and strict: a value of the wrong type is refused, never converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class CorpusConfig(_Section):
    """Where sentence pairs are read from: two plain files, one table file, or a dataset."""

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
    return (value,) if isinstance(value, (dict, CorpusConfig)) else _as_tuple(value)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class DataConfig(_Section):
    """The corpora and what is left out of them. Paths are relative to `root`."""

    source_language: str = "src"
    target_language: str = "tgt"
    root: str = "."
    train: Annotated[tuple[CorpusConfig, ...], BeforeValidator(_as_corpora)] = ()
    valid: CorpusConfig | None = None
    max_tokens: Count = 256
    max_ratio: Annotated[float, Field(gt=1.0)] | None = None
    lowercase: bool = False
    bleu_tokenize: Literal["13a", "char", "intl", "none", "zh"] = "13a"


class TokenizerConfig(_Section):
    """How text becomes pieces. `joint` gives both languages one vocabulary."""

    kind: Literal["bpe", "unigram", "char", "word"] = "bpe"
    size: Annotated[int, Field(ge=16)] = 32_000
    joint: bool = True
    byte_fallback: bool = False
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 1.0  # sentencepiece's limits
    dropout: Fraction = 0.0

    @model_validator(mode="after")
    def _dropout_needs_merges(self) -> "TokenizerConfig":
        if self.dropout and self.kind != "bpe":
            raise ValueError(f"dropout leaves out merges of bpe; {self.kind} has none: set it to 0")
        return self


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_model": 128, "d_ffn": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "d_ffn": 1024, "heads": 4, "encoder_layers": 6, "decoder_layers": 6},
    "base": {"d_model": 512, "d_ffn": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
    "big": {"d_model": 1024, "d_ffn": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6},
}


SEPARATOR_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {"agreement": "mlp", "coverage": False, "capsule_scale": False, "fusion": "ffn"},
}


def _with_preset(data: Any, presets: Mapping[str, Mapping[str, Any]], default: str) -> Any:
    """What is written out wins over what the preset says."""
    if not isinstance(data, dict):
        return data
    return dict(presets.get(data.get("preset", default), {})) | data


class SeparatorConfig(_Section):
    """How source words are told apart as past, future and redundant. The preset `paper` is
    the form of the paper; the default is the one that separates best (docs/results.md)."""

    kind: Literal["none", "gdr", "clf", "attn"] = "none"
    preset: Literal["default", "paper"] = "default"
    past: Count = 2
    future: Count = 2
    redundant: CountOrZero = 2
    d_capsule: Count | None = None  # of one capsule; None: half of d_model
    num_iterations: Count = 3
    agreement: Literal["dot", "mlp"] = "dot"
    coverage: bool = True
    capsule_scale: bool = True
    fusion: Literal["ffn", "linear"] = "linear"
    backbone_gradient: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    bca_direction: Literal["state_to_capsule", "capsule_to_state"] = "state_to_capsule"

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, data: Any) -> Any:
        return _with_preset(data, SEPARATOR_PRESETS, cls.model_fields["preset"].default)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Capsules of each category; attention has no way to call a word redundant."""
        return self.past, self.future, 0 if self.kind == "attn" else self.redundant


class ModelConfig(_Section):
    """The shape of the model. A preset fills in what is not written out beside it."""

    backbone: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "small", "base", "big"] = "base"
    d_model: Count = 512
    d_ffn: Count = 2048
    heads: Count = 8
    encoder_layers: Count = 6
    decoder_layers: Count = 6
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.0
    activation_dropout: Fraction = 0.0
    tie_embeddings: bool = True
    separator: SeparatorConfig = SeparatorConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, data: Any) -> Any:
        return _with_preset(data, PRESETS, cls.model_fields["preset"].default)

    @model_validator(mode="after")
    def _heads_divide(self) -> "ModelConfig":
        if self.d_model % self.heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of heads {self.heads}")
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} is odd: sinusoidal positions need it even")
        return self


class TrainConfig(_Section):
    """The course of a run. One update sees `accumulate` batches, on however many processes."""

    seed: CountOrZero = 1
    steps: Count = 100_000
    epochs: Count | None = None
    batch_tokens: Count = 4096
    accumulate: Count = 1
    learning_rate: Annotated[float, Field(gt=0.0)] = 7e-4
    schedule: Literal["inverse_sqrt", "plateau", "constant"] = "inverse_sqrt"
    warmup: CountOrZero = 4000
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    plateau_patience: Count = 2
    min_learning_rate: Annotated[float, Field(ge=0.0)] = 1e-9
    betas: Annotated[tuple[Fraction, Fraction], BeforeValidator(_as_tuple)] = (0.9, 0.98)
    epsilon: Annotated[float, Field(gt=0.0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    clip: Annotated[float, Field(ge=0.0)] = 1.0
    label_smoothing: Fraction = 0.1
    bow_weight: Weight = 0.5
    bow_window: Literal["causal", "paper", "strict"] = "causal"
    bow_reduction: Literal["sum", "mean"] = "sum"
    bow_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    bca_weight: Weight = 0.0
    counterfactual: Annotated[float, Field(ge=0.0, le=1.0)] = 0.25
    auxiliary_start: CountOrZero = 0
    auxiliary_warmup: CountOrZero = 0
    separator_rate: Annotated[float, Field(gt=0.0)] = 4.0
    freeze_backbone: bool = False
    log_every: Count = 50
    validate_every: Count = 1000
    validate_bleu: bool = True
    validate_beam: Count = 1
    best_by: Literal["loss", "bleu"] = "bleu"
    patience: Count | None = None
    save_every: Count = 1000
    keep: Count = 5
    threads: Count | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    timeout_minutes: Annotated[float, Field(gt=0.0)] = 30.0
    max_skipped: Count = 5

    @model_validator(mode="after")
    def _best_can_be_known(self) -> "TrainConfig":
        if self.best_by == "bleu" and not self.validate_bleu:
            raise ValueError('best_by = "bleu" needs validate_bleu: set best_by = "loss"')
        if self.freeze_backbone and self.best_by == "bleu":
            raise ValueError(
                'with freeze_backbone no translation changes: set best_by = "loss", which is then '
                "that of the auxiliary losses"
            )
        if self.freeze_backbone and not (self.bow_weight or self.bca_weight):
            raise ValueError(
                "freeze_backbone leaves bow_weight and bca_weight to learn from: set one"
            )
        return self


class DecodeConfig(_Section):
    """How translations are searched for."""

    beam: Count = 4
    length_penalty: Annotated[float, Field(ge=0.0)] = 0.6
    nbest: Count = 1
    min_length: CountOrZero = 0
    max_length: Count = 256
    max_ratio: Annotated[float, Field(gt=0.0)] = 3.0
    no_repeat_ngram: CountOrZero = 0
    sample: bool = False
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    top_k: CountOrZero = 0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    seed: CountOrZero = 1
    batch_tokens: Count = 4096

    @model_validator(mode="after")
    def _nbest_fits(self) -> "DecodeConfig":
        if not self.sample and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} needs a beam at least as wide, not {self.beam}")
        return self


class Config(_Section):
    """A whole run: data, tokenizer, model, training and decoding."""

    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Read a TOML file, apply `section.key=value` overrides (values in TOML), and check it all."""
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        raise UntoldError(f"{path}: no such configuration file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UntoldError(f"{path}: not valid TOML: {error}") from None
    return parse_config(override(values, overrides), str(path))


def override(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """A copy of nested settings with `section.key=value` changes; values are TOML or bare words."""
    changed = copy.deepcopy(dict(values))
    for change in overrides:
        _apply(changed, change)
    return changed


def parse_config(values: Mapping[str, Any], where: str = "configuration") -> Config:
    """Check a nested mapping; every problem is named with its key, value and cure."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _refusal(error, where) from None


def parse_config_json(text: str, where: str) -> Config:
    """Check what `Config.model_dump_json` wrote."""
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        raise _refusal(error, where) from None


def _refusal(error: ValidationError, where: str) -> UntoldError:
    return UntoldError(f"{where}: {'; '.join(_explain(problem) for problem in error.errors())}")


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    path = key.strip().split(".")
    if not equals or len(path) < 2 or not all(path):
        raise UntoldError(f"--set {change}: write it as section.key=value")
    for name in path[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise UntoldError(f"--set {change}: {name} is a value, not a section")
    values[path[-1]] = _toml_value(text.strip())


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word, such as a path or a preset's name


def _explain(problem: Any) -> str:
    names = [str(part) for part in problem["loc"]]
    key = ".".join(names) or "configuration"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_nearest(names)}"
    message = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    shown = (
        "" if isinstance(value, (dict, list, BaseModel)) else f" = {json.dumps(value, default=str)}"
    )
    return f"{key}{shown}: {message}"


def _nearest(names: list[str]) -> str:
    known = _known_keys(Config)
    tail = {key.rsplit(".", 1)[-1]: key for key in reversed(known)}
    plain = ".".join(name for name in names if not name.isdigit())
    close = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    close = close or [tail[m] for m in difflib.get_close_matches(names[-1], tail, n=1, cutoff=0.6)]
    return (
        f"; did you mean {close[0]}?"
        if close
        else f"; known sections: {', '.join(Config.model_fields)}"
    )


def _known_keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            keys += _known_keys(annotation, f"{prefix}{name}.")
    for name in ("train", "valid"):
        if section is DataConfig:
            keys += _known_keys(CorpusConfig, f"{prefix}{name}.")
    return keys
