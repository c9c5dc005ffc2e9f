"""Rewards: functions that grade translations, from 0 to 1 each."""

import importlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from untold.config import SequenceConfig
from untold.errors import UntoldError
from untold.evaluation.gleu import gleu
from untold.evaluation.metrics import MetricOptions, SentenceMetric, make_metric
from untold.evaluation.rouge import rouge_l

__all__ = ["Reward", "gleu", "make_reward", "rouge_l"]

Texts = Sequence[str]
Reward = Callable[[Texts, Texts, Texts], Sequence[float]]  # sources, references, translations


def make_reward(config: SequenceConfig, tokenize: str) -> Reward:
    """Makes the reward of the settings; `tokenize` tells how BLEU and GLEU split words.

    A reward returns one finite number for each translation, or raises an error that says why not.
    """
    if ":" in config.reward:
        return _checked(_import(config.reward), config.reward)
    aligner = None if config.aligner is None else Path(config.aligner)
    metric: SentenceMetric = make_metric(config.reward, MetricOptions(tokenize, aligner=aligner))
    return _checked(metric.sentence_scores, config.reward)


def _import(name: str) -> Callable[..., Any]:
    place, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(place), function)
    except (ImportError, AttributeError) as error:
        raise UntoldError(
            f"train.sequence.reward = {name}: {error}; name a function as package.module:function "
            "that Python can import from here"
        ) from None
    if not callable(found):
        raise UntoldError(f"train.sequence.reward = {name}: it is no function")
    return found


def _checked(function: Callable[..., Any], name: str) -> Reward:
    def reward(sources: Texts, references: Texts, translations: Texts) -> list[float]:
        values = [float(value) for value in function(sources, references, translations)]
        if len(values) != len(translations):
            raise UntoldError(
                f"train.sequence.reward = {name} gave {len(values)} numbers for "
                f"{len(translations)} translations: it must give one each"
            )
        for value, text in zip(values, translations, strict=True):
            if not math.isfinite(value):
                raise UntoldError(
                    f"train.sequence.reward = {name} gave {value} for {text[:80]!r}: rewards must "
                    "be finite"
                )
        return values

    return reward
