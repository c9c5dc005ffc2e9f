"""The losses of PFRNN's layers: the change of a layer at a step predicts the word of that step.

-log softmax(E D^P_t)[y_t]   and   -log softmax(E D^F_t)[y_t],   E the output embedding
"""

from jaxtyping import Float
from torch import Tensor

from untold.config import TrainConfig
from untold.models.backbone import as_inspectable
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
        return as_inspectable(model.backbone) is not None

    def value(self, context: LossContext) -> Float[Tensor, ""]:
        """Computes the cross entropy of the layer's guesses, summed over the target tokens."""
        real, output_layer = context.batch.target_mask, context.model.backbone.output_layer()
        guesses, labels = context.once(_layer_guesses)[self.name][real], context.batch.labels[real]
        return label_smoothed_cross_entropy(*output_layer.augmented(guesses), labels, 0.0)[0]


class FutureLayerLoss(PastLayerLoss):
    """Trains the future layer in the same way."""

    name = "future"

    def weight(self, config: TrainConfig) -> float:
        """Returns train.future_layer_weight."""
        return config.future_layer_weight


def _layer_guesses(context: LossContext) -> dict[str, Float[Tensor, "b t o"]]:
    """Returns the vectors that guess the word of each step, by the name of the layer."""
    backbone = as_inspectable(context.model.backbone)
    assert backbone is not None
    return backbone.guesses(context.outputs.inner_states)
