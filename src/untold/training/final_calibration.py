"""Calibrates the best model of a run when the run is over, on its validation text."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from untold.account.pair_account import AccountReader
from untold.account.self_made import fit_calibration
from untold.durable import is_complete
from untold.errors import UntoldError
from untold.feedback import task
from untold.storage.model_directory import BEST, load_model, save_model, step_directories
from untold.training.interruption import Interrupted, PutOffError
from untold.training.reporter import Reporter

__all__ = ["calibrate_best"]

_PAIRS = 1000  # of the validation text: more make it hardly better


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
    trained = load_model(found[-1])
    if trained.model.past_future is None or trained.calibration is not None:
        return
    order = np.random.default_rng(trained.config.train.seed).permutation(len(pairs))
    chosen = [pairs[k] for k in sorted(order[:_PAIRS].tolist())]
    try:
        with task("calibrating", 3 * len(chosen)) as begun:

            def advance(count: int) -> None:
                interrupted.put_off()
                begun.advance(count)

            reader = AccountReader(trained, trained.config.decode.batch_tokens)
            calibration = fit_calibration(reader, chosen, trained.config.train.seed, advance)
    except PutOffError:
        return
    except UntoldError as error:
        reporter.say(f"not calibrated: {error}")
        return
    save_model(found[-1], replace(trained, calibration=calibration), replace=True)
    reporter.say(
        f"calibrated on {calibration.segments} validation pairs: on held-out words the probability "
        f"of an omission is off by {calibration.error:.3f} on average"
    )
