"""Samples, which the model learns from with or without the references, and their rewards.

The search runs in evaluation mode and without gradients. The samples depend on torch's generator,
from which one number is taken, and on the indices of the sentences.
Rewards are functions that grade translations, from 0 to 1 each.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from untold.config import DecodeConfig, SequenceConfig
from untold.corpus.batching import Batch, Ids, pad_rows
from untold.corpus.tokenizer import SpecialIds
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Hypothesis, Sentences
from untold.errors import UntoldError
from untold.metrics.base import MetricOptions, SentenceMetric, make_metric
from untold.models.seq2seq import Seq2Seq

_MOST_RATIO = 2.0  # a sample has at most this many times the tokens of its source, and 10 more


@dataclass(frozen=True)
class Samples:
    """n translations of the sentences of a batch, ordered by sentence."""

    rows: Int[Tensor, " n"]  # the sentence of each
    tokens: tuple[tuple[int, ...], ...]  # without control tokens
    prefix: Int[Tensor, "n t"]  # BOS y_1 .. y_T, as in Batch
    labels: Int[Tensor, "n t"]  # y_1 .. y_T EOS
    mask: Bool[Tensor, "n t"]  # True = real token
    chosen: Bool[Tensor, "n t"]  # False at an EOS that the length limit forced


def draw_samples(model: Seq2Seq, batch: Batch, config: SequenceConfig, longest: int) -> Samples:
    """Draws translations of the model at random, with at most `longest` tokens each.

    Minimum risk training learns from sets: for it no translation of a sentence occurs twice.
    """
    settings = {"max_length": longest + 1, "max_ratio": _MOST_RATIO, "nbest": config.samples}
    settings |= {"temperature": 1.0, "seed": int(torch.randint(1 << 31, ()))}
    found = _search(model, batch, DecodeConfig.model_validate(settings))
    own = [[(each.tokens, each.finished) for each in hypotheses] for hypotheses in found]
    if config.reference:
        own = [[*some, (each, True)] for some, each in zip(own, _references(batch), strict=True)]
    if config.kind == "mrt":
        own = [list(dict(some).items()) for some in own]
    return collect(own, batch.special, batch.source.device)


def draw_greedy(model: Seq2Seq, batch: Batch, longest: int) -> Samples:
    """Takes the likeliest token at each step; self-critical training compares samples with it."""
    settings = {"max_length": longest + 1, "max_ratio": _MOST_RATIO, "beam": 1}
    found = _search(model, batch, DecodeConfig.model_validate(settings))
    own = [[(hypotheses[0].tokens, hypotheses[0].finished)] for hypotheses in found]
    return collect(own, batch.special, batch.source.device)


def collect(
    found: Sequence[Sequence[tuple[tuple[int, ...], bool]]],
    special: SpecialIds,
    device: torch.device,
) -> Samples:
    """Makes tensors of the translations of each sentence.

    Each translation is its tokens, and True if it ended by itself.
    """
    flat = [(row, *each) for row, some in enumerate(found) for each in some]
    ended: list[Ids] = [(*tokens, special.eos) for _, tokens, _ in flat]
    labels, mask = (part.to(device) for part in pad_rows(ended, special.pad))
    begin = torch.full_like(labels[:, :1], special.bos)
    prefix = torch.cat([begin, labels[:, :-1]], dim=1).masked_fill(~mask, special.pad)
    forced = torch.tensor([not finished for *_, finished in flat], device=device)
    return Samples(
        rows=torch.tensor([row for row, *_ in flat], device=device),
        tokens=tuple(tokens for _, tokens, _ in flat),
        prefix=prefix,
        labels=labels,
        mask=mask,
        chosen=mask & ~(forced[:, None] & (labels == special.eos)),
    )


def _search(model: Seq2Seq, batch: Batch, decode: DecodeConfig) -> list[list[Hypothesis]]:
    indices = tuple(batch.indices.tolist())
    sentences = Sentences(batch.source, batch.source_mask, batch.special, None, indices)
    with _evaluating(model):
        return search(model, sentences, decode)


@contextmanager
def _evaluating(model: Seq2Seq) -> Iterator[None]:
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


def _references(batch: Batch) -> list[tuple[int, ...]]:
    lengths = (batch.target_mask.sum(1) - 1).tolist()
    rows = zip(batch.labels.tolist(), lengths, strict=True)
    return [tuple(row[:length]) for row, length in rows]


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
