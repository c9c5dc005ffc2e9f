"""Validation: the loss per token on the validation corpus, and BLEU of the translations."""

from collections.abc import Callable, Iterator

import torch

from untold.corpus.batching import Batch, PairStore, plan_epoch
from untold.evaluation.metrics import corpus_scores
from untold.feedback import task, track
from untold.storage.model_directory import TrainedModel
from untold.training.interruption import Interrupted
from untold.training.losses.cross_entropy import translation_loss
from untold.training.losses.objective import Objective
from untold.training.progress import Validation
from untold.translator import Translator

__all__ = ["auxiliary_loss", "make_validator", "validation_loss"]


def make_validator(
    trained: TrainedModel,
    store: PairStore,
    pairs: list[tuple[str, str]],
    interrupted: Interrupted | None = None,
) -> Callable[[], Validation]:
    """Makes a function that validates the current model without drawing random numbers.

    It is put off if a signal arrives: PutOffError.
    """
    config, interrupted = trained.config, interrupted or Interrupted()

    def validate() -> Validation:
        frozen = config.train.freeze_backbone
        measure = auxiliary_loss if frozen else validation_loss
        loss = measure(trained, store, interrupted)
        if not config.train.validate_bleu:
            return Validation(loss)
        settings = {"beam": config.train.validate_beam, "nbest": 1, "sample": False}
        decode = config.decode.model_copy(update=settings)
        with task("validation BLEU", len(pairs)) as begun:

            def advance(count: int) -> None:
                interrupted.put_off()
                begun.advance(count)

            translator = Translator([trained], decode, advance)
            translations = translator.translate([source for source, _ in pairs])
        (bleu,) = corpus_scores(
            [translation.text for translation in translations],
            [trained.codec.normalise(target) for _, target in pairs],
            ("bleu",),
            tokenize=config.data.bleu_tokenize,
        )
        return Validation(loss, bleu.value)

    return validate


@torch.inference_mode()
def validation_loss(
    trained: TrainedModel, store: PairStore, interrupted: Interrupted | None = None
) -> float:
    """Computes -log p(y|x) per target token, without label smoothing."""
    model = trained.model
    total, tokens = 0.0, 0
    for batch in _batches(trained, store, interrupted):
        outputs = model(batch.source, batch.source_mask, batch.prefix)
        total += float(translation_loss(model, outputs, batch, 0.0)[1])
        tokens += batch.target_tokens
    return total / tokens


@torch.inference_mode()
def auxiliary_loss(
    trained: TrainedModel, store: PairStore, interrupted: Interrupted | None = None
) -> float:
    """Computes the losses of a frozen backbone's heads per target token, with full weights."""
    config = trained.config.train
    exact = {"bow_share": 1.0, "vocabulary_share": 1.0, "counterfactual": 0.0}
    settings = {"freeze_backbone": True} | exact
    objective = Objective(trained.model, config.model_copy(update=settings))
    total, tokens = 0.0, 0
    last = config.auxiliary_start + config.auxiliary_warmup + 1
    for batch in _batches(trained, store, interrupted):
        total += float(objective(batch, last).total)
        tokens += batch.target_tokens
    return total / tokens


def _batches(
    trained: TrainedModel, store: PairStore, interrupted: Interrupted | None
) -> Iterator[Batch]:
    plan = plan_epoch(store, trained.config.train.batch_tokens, seed=0, epoch=0, shuffle=False)
    batches = plan.batches(store, trained.codec.batch)
    for batch in track(batches, "validation loss", len(plan)):
        if interrupted is not None:
            interrupted.put_off()
        yield batch
