"""The losses of past and future layers: what changed in them at a step is the word of that step.

-log softmax(E D^P_t)[y_t]   and   -log softmax(E D^F_t)[y_t],   E the output embedding
"""

from torch import Tensor

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.backbone import as_inspectable
from untold.models.pfrnn import Timeline
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.fused_softmax import label_smoothed_cross_entropy

__all__ = ["timeline_losses", "timeline_weights"]


def timeline_weights(config: TrainConfig) -> dict[str, float]:
    """The losses with a weight; a frozen backbone has none, since its layers are a part of it."""
    if config.freeze_backbone:
        return {}
    weights = {"past": config.past_layer_weight, "future": config.future_layer_weight}
    return {name: weight for name, weight in weights.items() if weight}


def timeline_losses(
    model: Seq2Seq, timeline: Timeline, batch: Batch, config: TrainConfig
) -> list[tuple[str, float, Tensor]]:
    """Name, weight and value of each loss with a weight, summed over the words of the batch."""
    backbone = as_inspectable(model.backbone)
    assert backbone is not None
    weights, labels = timeline_weights(config), batch.labels[batch.target_mask]
    output_layer = model.backbone.output_layer()
    return [
        (
            name,
            weights[name],
            label_smoothed_cross_entropy(*output_layer.augmented(states), labels, 0.0)[0],
        )
        for name, guess in backbone.guesses(timeline).items()
        if name in weights
        for states in (guess[batch.target_mask],)
    ]
