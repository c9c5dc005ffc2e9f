"""Rewards: functions that grade translations, from 0 to 1 each."""

import importlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sacrebleu
from sacrebleu.metrics.base import Metric

from untold.alignment.aligner import load_aligner
from untold.config import SequenceConfig
from untold.errors import UntoldError
from untold.evaluation.cdr import sentence_cdr
from untold.evaluation.metrics import split_for_rouge

__all__ = ["Reward", "gleu", "make_reward", "rouge_l"]

Texts = Sequence[str]
Reward = Callable[[Texts, Texts, Texts], Sequence[float]]  # sources, references, translations

_LONGEST = 4  # n-grams of GLEU


def make_reward(config: SequenceConfig, tokenize: str) -> Reward:
    """Makes the reward of the settings; `tokenize` tells how BLEU and GLEU split words.

    A reward returns one finite number for each translation, or raises an error that says why not.
    """
    if ":" in config.reward:
        return _checked(_import(config.reward), config.reward)
    if config.reward == "cdr":
        assert config.aligner is not None
        return _checked(_coverage(config.aligner), config.reward)
    return _pairwise(_scorers(tokenize)[config.reward])


def gleu(reference: Sequence[str], translation: Sequence[str]) -> float:
    """Computes the smaller of precision and recall over all n-grams of one to four words."""
    theirs, ours = _ngrams(reference), _ngrams(translation)
    total = max(theirs.total(), ours.total())
    return (theirs & ours).total() / total if total else 1.0


def rouge_l(reference: Sequence[str], translation: Sequence[str]) -> float:
    """Computes F1 of the longest common subsequence."""
    if not reference and not translation:
        return 1.0
    return 2 * _longest_common(reference, translation) / (len(reference) + len(translation))


def _scorers(tokenize: str) -> dict[str, Callable[[str, str], float]]:
    # A sentence may be too short for 4-grams: sacreBLEU then uses the orders that it has.
    bleu = sacrebleu.BLEU(tokenize=tokenize, effective_order=True, force=True)
    chrf = sacrebleu.CHRF()

    def words(text: str) -> list[str]:
        return bleu.tokenizer(text).split()

    return {
        "bleu": lambda reference, translation: _sacre(bleu, reference, translation),
        "chrf": lambda reference, translation: _sacre(chrf, reference, translation),
        "gleu": lambda reference, translation: gleu(words(reference), words(translation)),
        "rouge": lambda reference, translation: rouge_l(
            split_for_rouge(reference), split_for_rouge(translation)
        ),
    }


def _sacre(metric: Metric, reference: str, translation: str) -> float:
    return float(metric.sentence_score(translation, [reference]).score) / 100


def _pairwise(score: Callable[[str, str], float]) -> Reward:
    """Makes a reward of a score of reference and translation; equal pairs are scored once."""

    def reward(_: Texts, references: Texts, translations: Texts) -> list[float]:
        pairs = list(zip(references, translations, strict=True))
        known = {pair: score(*pair) for pair in dict.fromkeys(pairs)}
        return [known[pair] for pair in pairs]

    return reward


def _coverage(path: str) -> Reward:
    """Loads the aligner of CDR, the share of the source words covered by the reference that a
    translation covers, too."""
    aligner = load_aligner(Path(path))
    aligner.split([], [])  # fails here if its word splitter is not installed
    return partial(sentence_cdr, aligner)


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


def _ngrams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(words[start : start + size])
        for size in range(1, _LONGEST + 1)
        for start in range(len(words) - size + 1)
    )


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Computes the length of the longest common subsequence, one row of the table at a time."""
    row = [0] * (len(other) + 1)
    for word in one:
        before = row
        row = [0]
        for place, its in enumerate(other):
            same = before[place] + 1
            row.append(same if word == its else max(before[place + 1], row[place]))
    return row[-1]
