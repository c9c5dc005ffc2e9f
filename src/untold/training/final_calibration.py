"""Calibrates the best model of a run when the run is over, on its validation text."""

from pathlib import Path

from untold.account.pair_account import AccountReader
from untold.account.self_made import MOST_PAIRS, fit_calibration
from untold.durable import is_complete
from untold.errors import UntoldError
from untold.feedback import task
from untold.storage.calibration import Calibration
from untold.storage.model_directory import (
    BEST,
    TrainedModel,
    add_calibration,
    load_model,
    step_directories,
)
from untold.training.interruption import Interrupted, PutOffError
from untold.training.reporter import Reporter

__all__ = ["calibrate_best"]


def calibrate_best(
    out: Path, pairs: list[tuple[str, str]], reporter: Reporter, interrupted: Interrupted
) -> None:
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
        reporter.say(f"not calibrated: {error}")
        return
    reporter.say(
        f"calibrated on {calibration.segments} validation pairs: on held-out words the probability "
        f"of an omission is off by {calibration.error:.3f} on average"
    )


def _fit(
    trained: TrainedModel, pairs: list[tuple[str, str]], interrupted: Interrupted
) -> Calibration:
    with task("calibrating", 3 * min(len(pairs), MOST_PAIRS)) as begun:

        def advance(count: int) -> None:
            interrupted.put_off()
            begun.advance(count)

        reader = AccountReader(trained, trained.config.decode.batch_tokens)
        return fit_calibration(reader, pairs, trained.config.train.seed, advance)
