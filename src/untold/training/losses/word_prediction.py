"""Word prediction (Weng et al., 2017): the decoder state predicts the words still to come.

    -log p(bag) = sum over the words y still to come of  log Z_t - E_y . W z_t

It is a bag-of-words loss without capsules.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config import TrainConfig
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.bag_of_words import BagVocabulary, draw_vocabulary, mean_bag_loss
from untold.training.losses.counterfactual import TargetWords
from untold.training.losses.loss import Loss, LossContext

__all__ = ["WordPredictionLoss"]


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
        """Computes the future bags of all steps, or of the first step alone."""
        config, labels, steps = context.config, context.batch.labels, context.batch.target_mask
        head = context.model.word_prediction
        assert head is not None
        sample = draw_vocabulary(context)
        rows = nn.functional.embedding(sample.ids, context.model.output_embedding())
        vocabulary = BagVocabulary(sample, rows)
        words = TargetWords(labels, steps, labels, steps)
        _, future = vocabulary.bags(words, config.bow_window)
        if config.word_prediction_steps == "first":
            steps = steps & (torch.arange(steps.shape[1], device=steps.device) == 0)
        return mean_bag_loss([(context.outputs.states, head, future)], steps, vocabulary, config)
