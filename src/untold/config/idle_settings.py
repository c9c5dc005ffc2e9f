"""Settings that do nothing beside the other ones: one table of rules, for training and decoding."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from untold.config.config_file import Config

__all__ = ["IDLE_RULES", "IdleRule", "idle_settings", "why_idle"]


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
        _keys("decode", "temperature top_k top_p seed"),
        lambda config: not config.decode.sample,
        "only samples are drawn with it: set decode.sample = true",
    ),
    IdleRule(
        _keys("decode", "beam"),
        lambda config: config.decode.sample,
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
