"""What training minimises: a list of losses, each with its weight and its own figure.

    -log p(y|x)  +  bow_weight * (bags + counterfactual bags)  +  ends_weight * both ends
                 +  lexicon_weight * (lexicon + links + counterfactual links)
                 +  bca_weight * content agreement  +  word_prediction * words from the state
                 +  those of past and future layers (timeline.py), if the backbone has such

All are sums over the sentences of a batch; a loss with weight zero is not computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.backbone import as_inspectable
from untold.models.past_future import PastFuture, Separated
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.training.losses.bag_of_words import Bags, Words, bag_loss, sentence_bags
from untold.training.losses.content_agreement import content_loss
from untold.training.losses.counterfactual import shorten
from untold.training.losses.cross_entropy import translation_loss
from untold.training.losses.ends_loss import ends_loss
from untold.training.losses.link_loss import Links, find_links, links_loss
from untold.training.losses.pfrnn_losses import timeline_losses, timeline_weights

__all__ = ["Goal", "Losses", "auxiliary_ramp", "objective", "parts_of", "supervised"]


@dataclass(frozen=True)
class Losses:
    """Sums over a batch. `total` is what is minimised; `parts` are for people to look at."""

    total: Float[Tensor, ""]
    parts: dict[str, Float[Tensor, ""]]


@runtime_checkable
class Goal(Protocol):
    """What a run minimises in place of `objective`, with networks that learn beside the model."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its figures, in the order they are shown."""
        ...

    @property
    def judges(self) -> nn.Module:
        """No part of the model, and of no use for translating."""
        ...

    def __call__(self, model: Seq2Seq, batch: Batch, config: TrainConfig, step: int) -> Losses:
        """As `objective`."""
        ...


def objective(model: Seq2Seq, batch: Batch, config: TrainConfig, step: int) -> Losses:
    """The loss of one batch at an update; with a frozen backbone without the word loss."""
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    return supervised(model, outputs, batch, config, step)


def supervised(
    model: Seq2Seq, outputs: Outputs, batch: Batch, config: TrainConfig, step: int
) -> Losses:
    """The same from what the model made of the batch."""
    total, parts = torch.zeros((), device=batch.labels.device), {}
    if not config.freeze_backbone:
        loss, parts["nll"] = translation_loss(model, outputs, batch, config.label_smoothing)
        total = total + loss
    ramp = auxiliary_ramp(config, step)
    for name, weight, value in _auxiliary(model, outputs, batch, config) if ramp else ():
        total = total + ramp * weight * value
        parts[name] = value.detach()
    return Losses(total, {"loss": total.detach(), **parts})


def parts_of(model: Seq2Seq, config: TrainConfig) -> tuple[str, ...]:
    """The names of an objective's figures, in the order they are shown."""
    past_future = model.past_future
    separates = past_future is not None
    bow = separates and config.bow_weight > 0
    links = separates and past_future.heads.lexicon is not None and config.lexicon_weight > 0
    wanted = {
        "loss": True,
        "nll": not config.freeze_backbone,
        "bow": bow,
        "ends": separates and config.ends_weight > 0,
        "lexicon": links,
        "links": links,
        "bca": separates and config.bca_weight > 0,
        "counterfactual": bow and config.counterfactual > 0,
        "cut_links": links and config.counterfactual > 0,
        "word_prediction": model.word_prediction is not None and config.word_prediction > 0,
    }
    layers = timeline_weights(config) if as_inspectable(model.backbone) else ()
    return (*(name for name, is_wanted in wanted.items() if is_wanted), *layers)


def auxiliary_ramp(config: TrainConfig, step: int) -> float:
    """The share of their weights that the auxiliary losses have at an update (from 1)."""
    since = step - config.auxiliary_start
    if since <= 0:
        return 0.0
    return min(1.0, since / config.auxiliary_warmup) if config.auxiliary_warmup else 1.0


def _auxiliary(
    model: Seq2Seq, outputs: Outputs, batch: Batch, config: TrainConfig
) -> list[tuple[str, float, Tensor]]:
    """Name, weight and value of each loss with a weight beside the word loss."""
    found = []
    if model.past_future is not None:
        found += _separation(model, model.past_future, outputs, batch, config)
    found += _word_prediction(model, outputs, batch, config)
    if outputs.inner_states is not None:
        found += timeline_losses(model, outputs.inner_states, batch, config)
    return found


def _separation(
    model: Seq2Seq, past_future: PastFuture, outputs: Outputs, batch: Batch, config: TrainConfig
) -> list[tuple[str, float, Tensor]]:
    """Those that teach capsules."""
    assert outputs.separated is not None
    mask, shares, links = batch.target_mask, outputs.separated.shares, None
    bags = _BagLosses(past_future, past_future.damp(model.output_embedding()), config)
    found = []
    if config.bow_weight:
        words = Words(batch.labels, mask, batch.labels, mask)
        found.append(("bow", config.bow_weight, bags.loss(outputs.separated, words, mask)))
    if config.ends_weight:
        found.append(("ends", config.ends_weight, ends_loss(shares, mask)))
    if config.lexicon_weight and past_future.heads.lexicon is not None:
        links, value = find_links(past_future.heads.lexicon, shares, batch)
        found.append(("lexicon", config.lexicon_weight, value))
        found.append(("links", config.lexicon_weight, links_loss(links, shares, mask)))
    if config.bca_weight:
        value = content_loss(outputs.separated, outputs.states, mask, past_future.heads)
        found.append(("bca", config.bca_weight, value))
    return found + _counterfactual(model, outputs, batch, bags, links)


def _counterfactual(
    model: Seq2Seq, outputs: Outputs, batch: Batch, bags: "_BagLosses", links: Links | None
) -> list[tuple[str, float, Tensor]]:
    """What bags and links say after prefixes from which something was left out."""
    config = bags.config
    share = config.counterfactual if config.bow_weight or links is not None else 0.0
    cut = shorten(batch, share) if share else None
    if cut is None:
        return []
    separated = model.decode(outputs.source.select(cut.rows), cut.prefix).separated
    assert separated is not None
    found = []
    if config.bow_weight:
        value = bags.loss(separated, cut.words, cut.after)
        found.append(("counterfactual", config.bow_weight, value))
    if links is not None:
        value = links_loss(links.cut(cut), separated.shares, cut.after)
        found.append(("cut_links", config.lexicon_weight, value))
    return found


def _word_prediction(
    model: Seq2Seq, outputs: Outputs, batch: Batch, config: TrainConfig
) -> list[tuple[str, float, Tensor]]:
    """The words still to come, from the decoder state alone (Weng et al., 2017): no capsules."""
    if model.word_prediction is None or not config.word_prediction:
        return []
    embedding, steps = model.output_embedding(), batch.target_mask
    words = Words(batch.labels, steps, batch.labels, steps)
    _, future = sentence_bags(words, embedding, config.bow_window)
    if config.word_prediction_steps == "first":
        steps = steps & (torch.arange(steps.shape[1], device=steps.device) == 0)
    value = _bag_total([(outputs.states, model.word_prediction, future)], steps, embedding, config)
    return [("word_prediction", config.word_prediction, value)]


@dataclass(frozen=True)
class _BagLosses:
    """Past and future bags under one set of settings."""

    past_future: PastFuture
    embedding: Tensor
    config: TrainConfig

    def loss(
        self, separated: Separated, words: Words, steps: Bool[Tensor, "b t"]
    ) -> Float[Tensor, ""]:
        """Of both sides."""
        heads = self.past_future.heads
        past, future = sentence_bags(words, self.embedding, self.config.bow_window)
        sides = [
            (separated.past, heads.bow_past, past),
            (separated.future, heads.bow_future, future),
        ]
        return _bag_total(sides, steps, self.embedding, self.config)


def _bag_total(
    sides: Sequence[tuple[Tensor, nn.Linear, Bags]],
    steps: Bool[Tensor, "b t"],
    embedding: Tensor,
    config: TrainConfig,
) -> Float[Tensor, ""]:
    """Summed over sentences; of each the mean over its `steps`, or over a sample of them.

    A side is vectors (b t w), the head that reads them, and the bags that it is to know.
    """
    per_step = steps.to(embedding.dtype) / steps.sum(1, keepdim=True).clamp(min=1)
    chosen, scale = _sample(steps, config.bow_share)
    weights = per_step.flatten()[chosen] * scale
    total = torch.zeros((), device=weights.device)
    for vectors, head, bags in sides:
        counts, sums = bags.counts.flatten()[chosen], bags.sums.flatten(0, 1)[chosen]
        mean = config.bow_reduction == "mean"
        share = weights / counts.clamp(min=1) if mean else weights
        picked = vectors.flatten(0, 1)[chosen]
        total = total + bag_loss(picked, head, embedding, (counts, sums), share)
    return total


def _sample(steps: Bool[Tensor, "b t"], share: float) -> tuple[Tensor, float]:
    """Places of a share of the steps in the flattened batch, and what makes their sum unbiased."""
    places = steps.flatten().nonzero().flatten()
    if share == 1.0 or not len(places):
        return places, 1.0
    count = max(1, round(share * len(places)))
    chosen = torch.randperm(len(places), device=places.device)[:count].sort().values
    return places[chosen], len(places) / count
