"""`untold calibrate` teaches a model how probable its account is."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import LARGEST_SEED, Model, number_option, say_outputs_if_stopped
from untold.progress_bar import task

if TYPE_CHECKING:
    from untold.storage.calibration import Calibration


def calibrate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Chooses pairs and damage.")] = 1,
) -> None:
    """Learn from good translations, damaged on purpose, how probable omissions and additions are.

    Training does this by itself at its end, with the validation text. The text must be one that the
    model was not trained on: some hundred pairs of the kind that you want to check are best. Of
    more than a thousand, a thousand are drawn. The calibration is kept in the model directory.
    """
    from untold.corpus.text import read_parallel
    from untold.files import lock_directory
    from untold.storage.model_directory import add_calibration, find_model, run_of

    directory = find_model(model)
    say_outputs_if_stopped(directory)
    pairs = list(zip(*read_parallel(source, target), strict=True))
    run = run_of(directory)
    # A trainer would replace the best model meanwhile, or remove the checkpoint.
    with nullcontext() if run is None else lock_directory(run):
        directory = find_model(model)
        calibration = _fit(directory, pairs, seed)
        add_calibration(directory, calibration)
    print(f"{directory}: calibrated on {calibration.segments} of {len(pairs)} pairs")
    print(f"expected calibration error on held-out words: {calibration.error:.4f}")


def _fit(directory: Path, pairs: list[tuple[str, str]], seed: int) -> "Calibration":
    from untold.checking.synthetic_errors import MOST_PAIRS, fit_calibration
    from untold.decoding.scoring import PairReader
    from untold.storage.model_directory import load_model

    with task(f"loading {directory}"):
        trained = load_model(directory, with_calibration=False)
    reader = PairReader(trained, trained.config.decode.batch_tokens)
    with task("calibrating", 3 * min(len(pairs), MOST_PAIRS)) as begun:
        return fit_calibration(reader, pairs, seed, begun.advance)
