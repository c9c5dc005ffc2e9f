"""Reads a whole configuration from TOML and `--set section.key=value`.

Types are strict, and an unknown key is an error that names the nearest known one.
"""

import copy
import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from untold.config.data_config import CorpusConfig, DataConfig, TokenizerConfig
from untold.config.decode_config import DecodeConfig
from untold.config.model_config import BACKBONES, ModelConfig, model_config_class
from untold.config.section import Section
from untold.config.train_config import TrainConfig
from untold.errors import UntoldError

__all__ = ["Config", "load_config", "override", "parse_config", "parse_config_json"]


class Config(Section):
    """Configures a whole run. `model` is an instance of the backbone's own configuration class."""

    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: SerializeAsAny[ModelConfig] = Field(
        default_factory=lambda: ModelConfig.model_validate({})
    )
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @model_validator(mode="before")
    @classmethod
    def _weight_asks_for_head(cls, data: Any) -> Any:
        """Gives the model the head that a weight of train.word_prediction needs."""
        if not isinstance(data, dict):
            return data
        train, model = data.get("train", {}), data.get("model", {})
        if not isinstance(train, dict) or not isinstance(model, dict):
            return data
        weight = train.get("word_prediction")
        wanted = isinstance(weight, (int, float)) and weight > 0
        return data | {"model": {"word_prediction": True} | model} if wanted else data

    @model_validator(mode="after")
    def _head_is_there(self) -> "Config":
        if self.train.word_prediction and not self.model.word_prediction:
            raise ValueError(
                f"train.word_prediction = {self.train.word_prediction} has no head to train: set "
                "model.word_prediction to true, or the weight to 0"
            )
        return self


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Reads a TOML file, applies `section.key=value` overrides (values in TOML) and checks it."""
    try:
        with open(path, "rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        raise UntoldError(f"{path}: no such configuration file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UntoldError(f"{path}: not valid TOML: {error}") from None
    return parse_config(override(values, overrides), str(path))


def override(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Copies nested settings and applies `section.key=value` changes, in TOML or as bare words."""
    changed = copy.deepcopy(dict(values))
    for change in overrides:
        _apply(changed, change)
    return changed


def parse_config(values: Mapping[str, Any], where: str = "configuration") -> Config:
    """Checks a nested mapping; the error names every problem with its key, value and cure."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _refusal(error, where, values) from None


def parse_config_json(text: str, where: str) -> Config:
    """Checks JSON that `Config.model_dump_json` wrote, now or in an older version."""
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        values = {} if error.errors()[0]["type"] == "json_invalid" else json.loads(text)
        raise _refusal(error, where, values) from None


def _refusal(error: ValidationError, where: str, values: Any) -> UntoldError:
    known = _known_keys(Config, values)
    problems = [_explain(problem, known) for problem in error.errors()]
    return UntoldError(f"{where}: {'; '.join(problems)}")


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


def _explain(problem: Any, known: list[str]) -> str:
    names = [str(part) for part in problem["loc"]]
    key = ".".join(names) or "configuration"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_nearest(names, known)}"
    message = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    shown = (
        "" if isinstance(value, (dict, list, BaseModel)) else f" = {json.dumps(value, default=str)}"
    )
    return f"{key}{shown}: {message}"


def _nearest(names: list[str], known: list[str]) -> str:
    tail = {key.rsplit(".", 1)[-1]: key for key in reversed(known)}
    plain = ".".join(name for name in names if not name.isdigit())
    close = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    close = close or [tail[m] for m in difflib.get_close_matches(names[-1], tail, n=1, cutoff=0.6)]
    return (
        f"; did you mean {close[0]}?"
        if close
        else f"; known sections: {', '.join(Config.model_fields)}"
    )


def _known_keys(section: type[BaseModel], values: Any, prefix: str = "") -> list[str]:
    """Lists all keys, with those of the backbone that the values choose."""
    keys: list[str] = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        inner = values.get(name) if isinstance(values, Mapping) else None
        annotation = _chosen(inner) if field.annotation is ModelConfig else field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            keys += _known_keys(annotation, inner, f"{prefix}{name}.")
    for name in ("train", "valid"):
        if section is DataConfig:
            keys += _known_keys(CorpusConfig, None, f"{prefix}{name}.")
    return keys


def _chosen(values: Any) -> type[ModelConfig]:
    name = ModelConfig.model_fields["backbone"].default
    name = values.get("backbone", name) if isinstance(values, Mapping) else name
    return model_config_class(name) if isinstance(name, str) and name in BACKBONES else ModelConfig
