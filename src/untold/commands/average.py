"""`untold average` averages checkpoints."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import number_option, say_outputs_if_stopped

__all__ = ["average"]


def average(
    run: Annotated[Path, typer.Argument(help="A training run.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    last: Annotated[int, number_option(1, 1000, "How many of the newest checkpoints.")] = 5,
    half: Annotated[
        bool, typer.Option("--half", help="Store numbers of 16 bits: half the size.")
    ] = False,
) -> None:
    """Average the weights of a run's last checkpoints into one model."""
    from untold.storage.checkpoint_averaging import average_models, halve, last_checkpoints
    from untold.storage.model_directory import save_model

    say_outputs_if_stopped(out)
    paths = last_checkpoints(run, last)
    averaged = average_models(paths)
    save_model(out, halve(averaged) if half else averaged)
    print(f"{out}: the mean of {', '.join(path.name for path in paths)}")
