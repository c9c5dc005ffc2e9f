"""What training minimises: a list of losses, each with its weight and its own figure."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from untold.config import TrainConfig
from untold.corpus.batches import Batch
from untold.models.seq2seq import Seq2Seq
from untold.training.losses import word_loss

__all__ = ["PARTS", "Losses", "objective"]

PARTS = ("loss", "nll")  # the figures of an objective, in the order they are shown


@dataclass(frozen=True)
class Losses:
    """Sums over a batch. `total` is what is minimised; `parts` are for people to look at."""

    total: Float[Tensor, ""]
    parts: dict[str, Float[Tensor, ""]]


def objective(model: Seq2Seq, batch: Batch, config: TrainConfig) -> Losses:
    """-log p(y|x) with smoothed labels, summed over the real tokens of the batch."""
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    states, labels = outputs.holistic[batch.target_mask], batch.labels[batch.target_mask]
    loss, nll = word_loss(states, model.output_embedding(), labels, config.label_smoothing)
    return Losses(loss, {"loss": loss.detach(), "nll": nll})
