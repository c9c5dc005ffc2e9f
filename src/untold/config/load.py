"""Reads a whole configuration from TOML and `--set section.key=value`.

Types are strict, and an unknown key is an error that names the nearest known one: pydantic finds
the mistakes, and a line names each with its key, its value and what is allowed.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from untold.config.data import DataConfig, TokenizerConfig
from untold.config.decode import DecodeConfig
from untold.config.model import ModelConfig
from untold.config.older import bring_up_to_date, without_former
from untold.config.schema import inner_section, list_sections
from untold.config.section import Section, allowed_values, plain_type
from untold.config.train import TrainConfig
from untold.errors import UntoldError, refuse_endless_device, shorten

AnySection = TypeVar("AnySection", bound=Section)
Spell = Callable[[Sequence[str]], str]

_MOST = 5  # problems that one line names
# What pydantic calls a mistake, and the words for it; all others are about values that a setting
# does not allow, and say what it does allow.
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "value_error": lambda problem: str(problem["ctx"]["error"]),
    "json_invalid": lambda problem: f"is not valid JSON: {problem['ctx']['error']}",
    "string_unicode": lambda _: "is not valid Unicode: write it in UTF-8",
}


def check_section(
    kind: type[AnySection], values: Any, where: str, spell: Spell = ".".join
) -> AnySection:
    """Makes a section of values; the error names every problem, with `spell` for its key."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise _refusal(error, kind, values, where, spell) from None


def check_section_json(kind: type[AnySection], text: str | bytes, where: str) -> AnySection:
    """Makes a section of JSON."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        is_json = error.errors()[0]["type"] != "json_invalid"
        raise _refusal(error, kind, json.loads(text) if is_json else {}, where) from None


def _refusal(
    error: ValidationError, kind: type[Section], values: Any, where: str, spell: Spell = ".".join
) -> UntoldError:
    problems = error.errors()
    lines = [_explain(problem, kind, values, spell) for problem in problems[:_MOST]]
    if len(problems) > _MOST:
        lines.append(f"and {len(problems) - _MOST} more")
    return UntoldError(f"{where}: {'; '.join(lines)}")


def _explain(problem: Mapping[str, Any], kind: type[Section], values: Any, spell: Spell) -> str:
    names = [shorten(part) for part in problem["loc"]]
    key = spell(names) if names else ""
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_hint(problem['loc'], kind, values)}"
    if problem["type"] in _WORDS:
        words = _WORDS[problem["type"]](problem)
    else:
        words = f"must be {_allowed_at(kind, problem['loc'], values)}"
    return f"{key}{_shown(problem)}: {words}" if key else words


def _shown(problem: Mapping[str, Any]) -> str:
    value = problem["input"]
    if isinstance(value, (dict, list, tuple, BaseModel)) or problem["type"] == "json_invalid":
        return ""
    try:
        return f" = {shorten(json.dumps(value, ensure_ascii=False, default=str))}"
    except ValueError:  # Python writes no number of thousands of digits
        return ""


def _hint(path: Sequence[str | int], kind: type[Section], values: Any) -> str:
    """Names the nearest known key: of the same section, or one that is nearly the same."""
    sections = list_sections(kind, values).items()
    keys = [f"{name}.{key}".lstrip(".") for name, each in sections for key in each.model_fields]
    last = str(path[-1])
    parent = ".".join(part for part in path[:-1] if isinstance(part, str))
    own = [key for key in keys if key.rpartition(".")[0] == parent]
    for known, cutoff in ((own, 0.7), (keys, 0.85)):
        tails = {key.rpartition(".")[2]: key for key in reversed(known)}
        if close := difflib.get_close_matches(last, tails, n=1, cutoff=cutoff):
            return f"; did you mean {tails[close[0]]}?"
    if not parent:
        return f"; known: {', '.join(own)}"
    return f"; `untold config {parent}` lists the known ones"


def _allowed_at(kind: type[Section], path: Sequence[str | int], values: Any) -> str:
    """Says what the setting at a path may be."""
    annotation, metadata = kind, []
    for part in path:
        values = values.get(part) if isinstance(values, Mapping) else None
        section = inner_section(annotation)
        if section is not None and part in section.model_fields:
            field = section.model_fields[str(part)]
            annotation, metadata = plain_type(field.annotation, field.metadata)
            annotation = inner_section(annotation, values) or annotation
        elif inner := get_args(annotation):  # of a list or a table
            annotation, metadata = plain_type(inner[1 if get_origin(annotation) is dict else 0])
    return allowed_values(annotation, metadata)


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

    def with_train(self, **settings: Any) -> "Config":
        """Returns the configuration with some settings of [train] changed."""
        return self.model_copy(update={"train": self.train.model_copy(update=settings)})

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
    return check_section(Config, without_former(values, where), where)


def parse_config_json(text: str, where: str) -> Config:
    """Checks JSON that `Config.model_dump_json` wrote, now or in an older version."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return check_section_json(Config, text, where)  # which says what is wrong
    return check_section_json(Config, json.dumps(bring_up_to_date(values, where)), where)


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
