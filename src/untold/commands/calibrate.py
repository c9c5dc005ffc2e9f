"""`untold calibrate` teaches a model how probable its account is."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import LARGEST_SEED, Model, number_option, say_outputs_if_stopped
from untold.feedback import task

__all__ = ["calibrate"]


def calibrate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Chooses what is deleted.")] = 1,
) -> None:
    """Learn from good translations, damaged on purpose, how probable omissions and additions are.

    Training does this by itself at its end, with the validation text. The text must be one that the
    model was not trained on: some hundred pairs of the kind that you want to check are best. The
    calibration is kept in the model directory.
    """
    from dataclasses import replace

    from untold.account.pair_account import AccountReader
    from untold.account.self_made import fit_calibration
    from untold.corpus.lines import read_parallel
    from untold.storage.model_directory import find_model, load_model, save_model

    directory = find_model(model)
    say_outputs_if_stopped(directory)
    with task(f"loading {model}"):
        trained = load_model(directory)
    reader = AccountReader(trained, trained.config.decode.batch_tokens)
    pairs = list(zip(*read_parallel(source, target), strict=True))
    with task("calibrating", 3 * len(pairs)) as begun:
        found = fit_calibration(reader, pairs, seed, begun.advance)
    save_model(directory, replace(trained, calibration=found), replace=True)
    print(f"{directory}: calibrated on {found.segments} pairs")
    print(f"expected calibration error on held-out words: {found.error:.4f}")
