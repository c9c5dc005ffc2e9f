"""`untold train` trains a model or resumes a run."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import Settings

__all__ = ["train"]


def train(
    config: Annotated[Path, typer.Argument(help="A TOML file.")],
    settings: Settings = None,
    init: Annotated[Path | None, typer.Option(help="A model to start from.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory [runs/CONFIG].")] = None,
    allow_changed: Annotated[
        bool, typer.Option("--allow-changed", help="Resume although settings or data changed.")
    ] = False,
) -> None:
    """Train a model, or go on with a run that was stopped."""
    from untold.config import load_config
    from untold.training.run import RunOptions
    from untold.training.run import train as run_training

    options = RunOptions(out or Path("runs") / config.stem, init, allow_changed)
    result = run_training(load_config(config, settings or []), options)
    progress = result.progress
    best = "-" if progress.best is None else f"{progress.best:.4g}"
    if result.rank == 0:
        print(f"{result.out}: step {progress.step}, best {best} at {progress.best_step}")
    if result.signal:
        sys.exit(128 + result.signal)
