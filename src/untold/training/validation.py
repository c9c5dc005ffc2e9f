"""How good the model is on the validation corpus: loss per token, and BLEU of its translations."""

from collections.abc import Callable

import torch

from untold.analysis.scores import corpus_scores
from untold.corpus.batches import PairStore, plan_epoch
from untold.models.files import TrainedModel
from untold.training.losses import word_loss
from untold.training.progress import Validation
from untold.translator import Translator

__all__ = ["make_validator", "validation_loss"]


def make_validator(
    trained: TrainedModel, store: PairStore, pairs: list[tuple[str, str]]
) -> Callable[[], Validation]:
    """A function that validates the model as it is when called; it draws no random numbers."""
    config = trained.config

    def validate() -> Validation:
        loss = validation_loss(trained, store)
        if not config.train.validate_bleu:
            return Validation(loss)
        settings = {"beam": config.train.validate_beam, "nbest": 1, "sample": False}
        decode = config.decode.model_copy(update=settings)
        translations = Translator([trained], decode).translate([source for source, _ in pairs])
        (bleu,) = corpus_scores(
            [translation.text for translation in translations],
            [_prepare(target, config.data.lowercase) for _, target in pairs],
            ("bleu",),
            tokenize=config.data.bleu_tokenize,
        )
        return Validation(loss, bleu.value)

    return validate


@torch.inference_mode()
def validation_loss(trained: TrainedModel, store: PairStore) -> float:
    """-log p(y|x) per target token, without label smoothing."""
    model, batch_tokens = trained.model, trained.config.train.batch_tokens
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for batch in plan_epoch(store, batch_tokens, seed=0, epoch=0, shuffle=False).batches(store):
        batch = batch.to(device)
        outputs = model(batch.source, batch.source_mask, batch.prefix)
        states, labels = outputs.holistic[batch.target_mask], batch.labels[batch.target_mask]
        total += float(word_loss(states, model.output_embedding(), labels, 0.0)[1])
        tokens += batch.target_tokens
    return total / tokens


def _prepare(text: str, lowercase: bool) -> str:
    return text.lower() if lowercase else text
