"""The losses of PFRNN's layers: the change of a layer at a step predicts the word of that step.

-log softmax(E D^P_t)[y_t]   and   -log softmax(E D^F_t)[y_t],   E the output embedding
"""

from jaxtyping import Float
from torch import Tensor

from untold.config import TrainConfig
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy
from untold.training.losses.loss import Loss, LossContext

__all__ = ["FutureLayerLoss", "PastLayerLoss"]


class PastLayerLoss(Loss):
    """Trains the past layer; a frozen backbone goes without, since its layers are part of it."""

    name = "past"
    trains_backbone = True

    def weight(self, config: TrainConfig) -> float:
        """Returns train.past_layer_weight."""
        return config.past_layer_weight

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Needs a backbone with past and future layers."""
        return model.backbone.has_timeline

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the cross entropy of the layer's guesses, summed over the target tokens."""
        real, embedding = context.batch.target_mask, context.model.output_embedding()
        guesses = context.once(_layer_guesses)[self.name]
        labels = context.batch.labels[real]
        return label_smoothed_cross_entropy(guesses[real], embedding, labels, 0.0)[0]


class FutureLayerLoss(PastLayerLoss):
    """Trains the future layer in the same way."""

    name = "future"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.future_layer_weight."""
        return config.future_layer_weight


def _layer_guesses(context: LossContext) -> dict[str, Float[Tensor, "b t o"]]:
    """Returns the vectors that guess the word of each step, by the name of the layer."""
    assert context.outputs.timeline is not None
    return context.model.backbone.guesses(context.outputs.timeline)
