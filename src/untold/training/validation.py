"""Validation: the loss per token on the validation corpus, and BLEU of the translations.

Calibrates the best model of a run when the run is over, on its validation text.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from untold.checking.synthetic_errors import MOST_PAIRS, fit_calibration
from untold.corpus.batching import Batch, PairStore, plan_epoch
from untold.decoding.scoring import PairReader
from untold.errors import UntoldError
from untold.files import is_complete
from untold.interruption import Interrupted, PutOffError
from untold.metrics.base import corpus_scores
from untold.progress_bar import task, track
from untold.storage.calibration import Calibration
from untold.storage.model_directory import (
    BEST,
    TrainedModel,
    add_calibration,
    load_model,
    step_directories,
)
from untold.training.losses.cross_entropy import translation_loss
from untold.training.losses.objective import Objective
from untold.training.progress import Validation
from untold.translator import Translator

logger = logging.getLogger(__name__)


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
        if config.train.best_by != "bleu":
            return Validation(loss)
        settings = {"beam": 1, "nbest": 1, "temperature": 0.0}
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
    last = config.auxiliary_start + 1
    for batch in _batches(trained, store, interrupted):
        total += float(objective(batch, last).total)
        tokens += batch.target_tokens
    return total / tokens


def _batches(
    trained: TrainedModel, store: PairStore, interrupted: Interrupted | None
) -> Iterator[Batch]:
    plan = plan_epoch(store, trained.config.train.batch_tokens, seed=0, epoch=0, shuffle=False)
    batches = trained.codec.batches(store, plan)
    for batch in track(batches, "validation loss", len(plan)):
        if interrupted is not None:
            interrupted.put_off()
        yield batch


def calibrate_best(out: Path, pairs: list[tuple[str, str]], interrupted: Interrupted) -> None:
    """Adds a calibration to the best model, unless it has one or does not separate past and future.

    Whatever goes wrong is said and harms nothing: untold calibrate can do it later. A signal puts
    it off until the run is resumed.
    """
    found = [path for path in step_directories(out / BEST) if is_complete(path)]
    if not found or interrupted.signal:
        return
    try:
        trained = load_model(found[-1])
        if trained.model.past_future is None or trained.calibration is not None:
            return
        calibration = _fit(trained, pairs, interrupted)
        add_calibration(found[-1], calibration)
    except PutOffError:
        return
    except UntoldError as error:
        logger.warning("not calibrated: %s", error)
        return
    logger.info(
        "calibrated on %d validation pairs: on held-out words the probability of an omission is "
        "off by %.3f on average",
        calibration.segments,
        calibration.error,
    )


def _fit(
    trained: TrainedModel, pairs: list[tuple[str, str]], interrupted: Interrupted
) -> Calibration:
    with task("calibrating", 3 * min(len(pairs), MOST_PAIRS)) as begun:

        def advance(count: int) -> None:
            interrupted.put_off()
            begun.advance(count)

        reader = PairReader(trained, trained.config.decode.batch_tokens)
        return fit_calibration(reader, pairs, trained.config.train.seed, advance)
