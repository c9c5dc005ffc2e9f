"""Bag-of-words losses: past capsules know the words said, future ones the words still to come.

    -log p(bag) = sum over its words y of  log Z_t - E_y . u_t,   u_t = W Omega_t

State z_t has read y_<t and predicts y_t. The embeddings of a bag add up to one vector S_t, a
running sum over the sentence, so the loss is N_t log Z_t - u_t . S_t and needs no (t, t) matrix.
With train.vocabulary_share below one, Z_t is estimated: see models/translation_table.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.config import TrainConfig
from untold.models.layers import full_precision, widen
from untold.models.past_future import Separated
from untold.models.seq2seq import Seq2Seq
from untold.models.translation_table import WordSample, draw_words
from untold.training.losses.cross_entropy import weighted_log_partition
from untold.training.losses.loss import LossContext, SeparationLoss, TargetWords


@dataclass(frozen=True)
class Bags:
    """One bag for each position: the number of its words and the sum of their embeddings."""

    counts: Float[Tensor, "b t"]
    sums: Float[Tensor, "b t d"]


@dataclass(frozen=True)
class BagVocabulary:
    """Holds the rows of the output embedding that bags are normalised over."""

    sample: WordSample
    embedding: Float[Tensor, "n d"]

    def bags(self, words: TargetWords, window: str) -> tuple[Bags, Bags]:
        """Computes the past and the future bag of every position: see sentence_bags."""
        places = replace(
            words,
            labels=self.sample.places(words.labels),
            whole=self.sample.places(words.whole),
        )
        return sentence_bags(places, self.embedding, window)


Side = tuple[Float[Tensor, "b t _"], nn.Linear, Bags]  # vectors, the head that reads them, bags


class BagOfWordsLoss(SeparationLoss):
    """Predicts the words before a position from its past capsules, the rest from the future."""

    name = "bow"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.bow_weight."""
        return config.bow_weight

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the bags of the true prefixes."""
        labels, mask = context.batch.labels, context.batch.target_mask
        words = TargetWords(labels, mask, labels, mask)
        return _capsule_loss(context, context.separated, words, mask)


class CounterfactualBagLoss(BagOfWordsLoss):
    """Predicts the same bags after prefixes without a span, whose words are still to come."""

    name = "counterfactual"
    counterfactual = True

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:
        """Tells whether any sentence loses a span."""
        return super().applies(model, config) and config.counterfactual > 0

    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the bags at the positions behind the deleted spans."""
        if context.counterfactual is None:
            return None
        cut, separated = context.counterfactual
        return _capsule_loss(context, separated, cut.words, cut.after)


def sentence_bags(
    words: TargetWords, embedding: Float[Tensor, "v d"], window: str
) -> tuple[Bags, Bags]:
    """Computes the past and the future bag of every position.

    The window `causal` has y_<t and the rest, `paper` y_<=t and y_>=t, `strict` y_<t and y_>t.
    """
    real = words.mask.to(embedding.dtype)
    sums = nn.functional.embedding(words.labels, embedding) * real[..., None]
    through = Bags(real.cumsum(1), sums.cumsum(1))
    before = Bags(through.counts - real, through.sums - sums)
    whole = nn.functional.embedding(words.whole, embedding)
    whole = whole * words.whole_mask[..., None].to(embedding.dtype)
    said = through if window == "strict" else before
    future = Bags(
        words.whole_mask.sum(1, keepdim=True).to(embedding.dtype).expand_as(real) - said.counts,
        whole.sum(1, keepdim=True).expand_as(sums) - said.sums,
    )
    return through if window == "paper" else before, future


def bag_loss(
    capsules: Float[Tensor, "n w"],
    head: nn.Linear,
    vocabulary: BagVocabulary,
    bag: tuple[Float[Tensor, " n"], Float[Tensor, "n d"]],
    weights: Float[Tensor, " n"],
) -> Float[Tensor, ""]:
    """Sums weight times -log p(bag) over n positions, with p = softmax(E W capsules).

    `bag` holds counts and sums of the positions, as in Bags.
    """
    counts, sums = bag
    embedding, bias = vocabulary.embedding, vocabulary.sample.log_weights
    with full_precision(capsules):
        capsules = widen(capsules)
        mapped = head(capsules)
        if capsules.shape[1] < embedding.shape[1]:  # (E W) Omega: fewer products than E (W Omega)
            seen = embedding @ head.weight
            log_z = weighted_log_partition(capsules, seen, counts * weights, bias)
        else:
            log_z = weighted_log_partition(mapped, embedding, counts * weights, bias)
        return log_z - torch.linalg.vecdot(mapped, sums) @ weights


def mean_bag_loss(
    sides: Sequence[Side],
    steps: Bool[Tensor, "b t"],
    vocabulary: BagVocabulary,
    config: TrainConfig,
) -> Float[Tensor, ""]:
    """Averages the bag losses over the `steps` of each sentence and sums over the sentences.

    With train.bow_share below one it computes a random sample of the steps and scales their sum,
    so that its mean is right.
    """
    per_step = steps.to(vocabulary.embedding.dtype) / steps.sum(1, keepdim=True).clamp(min=1)
    chosen, scale = steps.flatten().nonzero().flatten(), 1.0
    if config.bow_share < 1.0 and len(chosen):
        count = max(1, round(config.bow_share * len(chosen)))
        sample = torch.randperm(len(chosen), device=chosen.device)[:count].sort().values
        chosen, scale = chosen[sample], len(chosen) / count
    weights = per_step.flatten()[chosen] * scale
    total = torch.zeros((), device=weights.device)
    for vectors, head, bags in sides:
        counts, sums = bags.counts.flatten()[chosen], bags.sums.flatten(0, 1)[chosen]
        mean = config.bow_reduction == "mean"
        share = weights / counts.clamp(min=1) if mean else weights
        picked = vectors.flatten(0, 1)[chosen]
        total = total + bag_loss(picked, head, vocabulary, (counts, sums), share)
    return total


def draw_vocabulary(context: LossContext) -> WordSample:
    """Draws the words of bags: those of the batch, and train.vocabulary_share of all others."""
    size = len(context.model.output_embedding())
    return draw_words(context.batch.labels, size, context.config.vocabulary_share)


def _capsule_loss(
    context: LossContext, separated: Separated, words: TargetWords, steps: Bool[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """Computes the bag losses of past and future capsules at some steps.

    All bags of a batch share their words; the backbone gets a share of the gradient.
    """
    heads, sample = context.past_future.heads, context.once(draw_vocabulary)
    rows = nn.functional.embedding(sample.ids, context.model.output_embedding())
    vocabulary = BagVocabulary(sample, context.past_future.damp(rows))
    past, future = vocabulary.bags(words, context.config.bow_window)
    sides = (separated.past, heads.bow_past, past), (separated.future, heads.bow_future, future)
    return mean_bag_loss(sides, steps, vocabulary, context.config)
