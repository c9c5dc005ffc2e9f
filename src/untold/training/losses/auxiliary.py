"""Bilingual content agreement: past capsules resemble what was decoded, future ones what will be.

    past:   |Omega_P,t - W_P mean(z_1..z_t)|^2        future:   |Omega_F,t - W_F mean(z_t..z_T)|^2

The states are fixed targets. W = 0 and Omega = 0 are a trivial minimum.

Word prediction (Weng et al., 2017): the decoder state predicts the words still to come.

    -log p(bag) = sum over the words y still to come of  log Z_t - E_y . W z_t

It is a bag-of-words loss without capsules.

The losses of PFRNN's layers: the change of a layer at a step predicts the word of that step.

-log softmax(E D^P_t)[y_t]   and   -log softmax(E D^F_t)[y_t],   E the output embedding
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.config import TrainConfig
from untold.models.backbone import as_inspectable
from untold.models.past_future import Heads, Separated
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.bag_of_words import BagVocabulary, draw_vocabulary, mean_bag_loss
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy
from untold.training.losses.loss import Loss, LossContext, SeparationLoss, TargetWords


class ContentAgreementLoss(SeparationLoss):
    """Trains the capsules to agree with the decoder states."""

    name = "bca"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.bca_weight."""
        return config.bca_weight

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the agreement of the batch."""
        mask, heads = context.batch.target_mask, context.past_future.heads
        return content_loss(context.separated, context.outputs.states, mask, heads)


def content_loss(
    separated: Separated,
    states: Float[Tensor, "b t d"],
    mask: Bool[Tensor, "b t"],
    heads: Heads,
) -> Float[Tensor, ""]:
    """Averages over the steps of each sentence and sums over the sentences."""
    past, future = running_means(states.detach(), mask)
    differences = (
        separated.past - heads.bca_past(past),
        separated.future - heads.bca_future(future),
    )
    per_step = sum((part.square().sum(-1) for part in differences), torch.zeros(()))
    real = mask.to(states.dtype)
    return (per_step * real / real.sum(1, keepdim=True)).sum()


def running_means(
    states: Float[Tensor, "b t d"], mask: Bool[Tensor, "b t"]
) -> tuple[Float[Tensor, "b t d"], Float[Tensor, "b t d"]]:
    """Computes for every position the mean of the states up to it, and of those from it on."""
    real = mask[..., None].to(states.dtype)
    states = states * real
    through, counts = states.cumsum(1), real.cumsum(1)
    rest = states.sum(1, keepdim=True) - through + states
    left = real.sum(1, keepdim=True) - counts + real
    return through / counts.clamp(min=1), rest / left.clamp(min=1)


class WordPredictionLoss(Loss):
    """Trains the head `word_prediction` of a model, and the decoder with it."""

    name = "word_prediction"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.word_prediction."""
        return config.word_prediction

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Tells whether the model has that head."""
        return model.word_prediction is not None

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the future bags of all steps."""
        config, labels, steps = context.config, context.batch.labels, context.batch.target_mask
        head = context.model.word_prediction
        assert head is not None
        sample = draw_vocabulary(context)
        rows = nn.functional.embedding(sample.ids, context.model.output_embedding())
        vocabulary = BagVocabulary(sample, rows)
        words = TargetWords(labels, steps, labels, steps)
        _, future = vocabulary.bags(words, config.bow_window)
        return mean_bag_loss([(context.outputs.states, head, future)], steps, vocabulary, config)


class PastLayerLoss(Loss):
    """Trains the past layer; a frozen backbone goes without, since its layers are part of it."""

    name = "past"
    trains_backbone = True

    def weight(self, config: TrainConfig) -> float:  # noqa: ARG002
        """Returns one."""
        return 1.0

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Tells whether the backbone has past and future layers."""
        return as_inspectable(model.backbone) is not None

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the cross entropy of the layer's guesses, summed over the target tokens."""
        real, output = context.batch.target_mask, context.model.backbone.output_layer()
        guesses = context.once(_layer_guesses)[self.name][real]
        labels = context.batch.labels[real]
        return label_smoothed_cross_entropy(*output.augmented(guesses), labels, 0.0)[0]


class FutureLayerLoss(PastLayerLoss):
    """Trains the future layer in the same way."""

    name = "future"


def _layer_guesses(context: LossContext) -> dict[str, Float[Tensor, "b t o"]]:
    """Returns the vectors that guess the word of each step, by the name of the layer."""
    backbone = as_inspectable(context.model.backbone)
    assert backbone is not None
    return backbone.guesses(context.outputs.inner_states)
