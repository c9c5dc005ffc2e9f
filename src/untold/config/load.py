"""Reads a whole configuration from TOML and `--set section.key=value`.

Types are strict, and an unknown key is an error that names the nearest known one.

Checks values against a section; whatever is wrong becomes one line in untold's own words.

pydantic finds the mistakes. A line names each with its key, its value and what is allowed, or with
the nearest known key.

Settings that do nothing beside the other ones: one table of rules, for training and decoding.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from untold.config.data import DataConfig, TokenizerConfig
from untold.config.decode import DecodeConfig
from untold.config.model import ModelConfig
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


@dataclass(frozen=True)
class IdleRule:
    """Settings that have no effect on a configuration for which the condition holds."""

    keys: tuple[str, ...]
    holds: Callable[[Config], bool]
    reason: str


def _keys(section: str, names: str) -> tuple[str, ...]:
    return tuple(f"{section}.{name}" for name in names.split())


def _has_auxiliary_loss(config: Config) -> bool:
    model, train = config.model, config.train
    return (
        model.separator.kind != "none"
        or model.backbone == "pfrnn"
        or train.word_prediction > 0
        or bool(train.losses)
    )


IDLE_RULES = (
    IdleRule(
        _keys("train", "plateau_factor plateau_patience"),
        lambda config: config.train.schedule != "plateau",
        'it is for train.schedule = "plateau"',
    ),
    IdleRule(
        _keys("train", "patience validate_every validate_beam best_by"),
        lambda config: config.data.valid is None,
        "without data.valid nothing is validated",
    ),
    IdleRule(
        _keys("train", "schedule"),
        lambda config: config.train.schedule == "plateau" and config.data.valid is None,
        "without data.valid nothing is validated, and the rate never falls",
    ),
    IdleRule(
        _keys("train", "validate_beam"),
        lambda config: not config.train.validate_bleu,
        "it is for train.validate_bleu = true",
    ),
    IdleRule(
        _keys(
            "train",
            "bow_weight bow_window bow_reduction bow_share bca_weight ends_weight lexicon_weight "
            "counterfactual separator_rate",
        ),
        lambda config: config.model.separator.kind == "none",
        "the model has no separator: set model.separator.kind",
    ),
    IdleRule(
        _keys("train", "vocabulary_share"),
        lambda config: config.model.separator.kind == "none" and not config.train.word_prediction,
        "no loss is normalised over a sample: set model.separator.kind",
    ),
    IdleRule(
        _keys("train", "past_layer_weight future_layer_weight"),
        lambda config: config.model.backbone != "pfrnn",
        'it is for model.backbone = "pfrnn"',
    ),
    IdleRule(
        _keys("tokenizer", "kind size byte_fallback character_coverage"),
        lambda config: config.model.backbone == "huggingface",
        "the Hugging Face model has a tokenizer of its own",
    ),
    IdleRule(
        _keys("train", "word_prediction_steps"),
        lambda config: config.train.word_prediction == 0,
        "train.word_prediction is 0",
    ),
    IdleRule(
        _keys("train", "auxiliary_start auxiliary_warmup"),
        lambda config: not _has_auxiliary_loss(config),
        "there is no auxiliary loss to delay",
    ),
    IdleRule(
        _keys(
            "train.sequence",
            "sampler samples temperature max_ratio reference reward aligner baseline alpha "
            "discriminator discriminator_warmup d_judge judge_rate",
        ),
        lambda config: not config.train.sequence.is_on,
        "train.sequence.kind or mix turns it off",
    ),
    IdleRule(
        _keys(
            "model.separator",
            "past future redundant d_capsule num_iterations agreement fusion backbone_gradient "
            "lexicon bca_direction",
        ),
        lambda config: config.model.separator.kind == "none",
        'model.separator.kind is "none"',
    ),
    IdleRule(
        _keys("train", "short_spans"),
        lambda config: config.train.counterfactual == 0,
        "train.counterfactual is 0",
    ),
    IdleRule(
        _keys("data", "stream_window"),
        lambda config: not config.data.stream,
        "it is for data.stream = true",
    ),
    IdleRule(
        _keys("decode", "seed"),
        lambda config: not config.decode.temperature,
        "only samples are drawn with it: set decode.temperature",
    ),
    IdleRule(
        _keys("decode", "beam"),
        lambda config: config.decode.temperature > 0,
        "samples need no beam, and decode.nbest is their number",
    ),
    IdleRule(
        _keys("decode", "coverage_source"),
        lambda config: config.decode.coverage_penalty == 0,
        "decode.coverage_penalty is 0",
    ),
)


def why_idle(config: Config, key: str) -> str | None:
    """Returns why a setting does nothing in a configuration; None if it does something."""
    reasons = (rule.reason for rule in IDLE_RULES if key in rule.keys and rule.holds(config))
    return next(reasons, None)


def idle_settings(config: Config) -> Iterator[str]:
    """Describes every setting that asks in vain for something other than its default.

    False and zero ask for nothing.
    """
    keys = dict.fromkeys(key for rule in IDLE_RULES for key in rule.keys)
    for key in keys:
        value, default = _find(config, key)
        if value and value != default and (reason := why_idle(config, key)):
            yield f"{key} = {value} has no effect: {reason}"


def _find(config: Config, key: str) -> tuple[Any, Any]:
    """Returns the value of a setting and its default."""
    *sections, name = key.split(".")
    section: Any = config
    for each in sections:
        section = getattr(section, each)
    return getattr(section, name), type(section).model_fields[name].default
