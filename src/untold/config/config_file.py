"""Reads a whole configuration from TOML and `--set section.key=value`.

Types are strict, and an unknown key is an error that names the nearest known one.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny, model_validator

from untold.config.data_config import DataConfig, TokenizerConfig
from untold.config.decode_config import DecodeConfig
from untold.config.model_config import ModelConfig
from untold.config.refusals import check_section, check_section_json
from untold.config.section import Section
from untold.config.train_config import TrainConfig
from untold.errors import UntoldError, shorten
from untold.failures import refuse_endless_device

__all__ = [
    "Config",
    "fill_older_settings",
    "load_config",
    "override",
    "parse_config",
    "parse_config_json",
]

# Settings that are newer than some saved models, with what was done before there was a choice.
_OLDER_SETTINGS: Mapping[str, Any] = {
    "model": {"separator": {"token_coverage": False}},
    "train": {"short_spans": 0.0, "vocabulary_share": 1.0, "batch_order": "target"},
}


class Config(Section):
    """Configures a whole run. `model` is an instance of the backbone's own configuration class."""

    data: DataConfig = DataConfig()
    """The corpora, and the pairs to leave out."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """How text is split into pieces."""
    model: SerializeAsAny[ModelConfig] = Field(
        default_factory=lambda: ModelConfig.model_validate({})
    )
    """The network."""
    train: TrainConfig = TrainConfig()
    """How it is trained."""
    decode: DecodeConfig = DecodeConfig()
    """How translations are searched for."""

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

    def starting_from(self, model: ModelConfig) -> "Config":
        """Returns the settings of a run that begins with the weights of another model."""
        own = self.model.starting_from(model)
        return self if own is self.model else self.model_copy(update={"model": own}).within_limits()

    def within_limits(self) -> "Config":
        """Lowers lengths to what the network can read; most networks can read any length."""
        most = self.model.most_tokens
        if most is None:
            return self
        data = self.data.model_copy(update={"max_tokens": min(self.data.max_tokens, most)})
        return self.model_copy(update={"data": data, "decode": self.limited(self.decode)})

    def limited(self, decode: DecodeConfig) -> DecodeConfig:
        """Lowers the length of translations to what the network can read."""
        most = self.model.most_tokens
        if most is None or decode.max_length <= most:
            return decode
        return decode.model_copy(update={"max_length": most})


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """Reads a TOML file, applies `section.key=value` overrides (values in TOML) and checks it."""
    refuse_endless_device(Path(path))
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # some editors begin a file with a mark
        values = _parse_toml(text, str(path))
    except FileNotFoundError:
        raise UntoldError(f"{path}: no such configuration file") from None
    except UnicodeDecodeError as error:
        raise UntoldError(
            f"{path}: not valid TOML: byte {error.start + 1} is not UTF-8: save the file as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise UntoldError(f"{path}: not valid TOML: {shorten(error, 200)}") from None
    return parse_config(override(values, overrides), str(path))


def override(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Copies nested settings and applies `section.key=value` changes, in TOML or as bare words."""
    changed = dict(values)
    for change in overrides:
        _apply(changed, change)
    return changed


def parse_config(values: Mapping[str, Any], where: str = "configuration") -> Config:
    """Checks a nested mapping; the error names every problem with its key, value and cure."""
    return check_section(Config, values, where)


def parse_config_json(text: str, where: str) -> Config:
    """Checks JSON that `Config.model_dump_json` wrote, now or in an older version."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return check_section_json(Config, text, where)  # which says what is wrong
    return check_section_json(Config, json.dumps(fill_older_settings(values)), where)


def fill_older_settings(values: Any) -> Any:
    """Adds what an older version did where a setting is missing whose default has changed since.

    A whole configuration has every key of its version: a key that it lacks is newer.
    """
    return _fill(values, _OLDER_SETTINGS)


def _fill(values: Any, older: Mapping[str, Any]) -> Any:
    if not isinstance(values, dict):
        return values
    filled = dict(values)
    for key, value in older.items():
        if not isinstance(value, Mapping):
            filled.setdefault(key, value)
        elif key in filled:
            filled[key] = _fill(filled[key], value)
    return filled


def _parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parses TOML; of what tomllib raises only its own error is left to the caller."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UntoldError(f"{where}: values are nested too deeply: write fewer levels") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise UntoldError(f"{where}: a number has thousands of digits: write fewer") from None


def _apply(values: dict[str, Any], change: str) -> None:
    """Changes one setting; the tables around it are copied, and the given ones stay."""
    key, equals, text = change.partition("=")
    path, where = key.strip().split("."), f"--set {shorten(change)}"
    if not equals or len(path) < 2 or not all(path):
        raise UntoldError(f"{where}: write it as section.key=value")
    if any("\ud800" <= sign <= "\udfff" for sign in change):
        raise UntoldError(f"{where}: is not valid Unicode: write it in UTF-8")
    for name in path[:-1]:
        inner = values.get(name, {})
        if not isinstance(inner, dict):
            raise UntoldError(f"{where}: {shorten(name)} is a value, not a section")
        values[name] = values = dict(inner)
    values[path[-1]] = _toml_value(text.strip(), where)


def _toml_value(text: str, where: str) -> Any:
    try:
        found = _parse_toml(f"value = {text}", where)
    except tomllib.TOMLDecodeError:
        return text  # a bare word, such as a path or a preset's name
    return found["value"] if found.keys() == {"value"} else text
