"""`untold train` trains a model or resumes a run."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import Settings
from untold.stopping import last_line, say_if_stopped

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

    out = out or Path("runs") / config.stem
    say_if_stopped(lambda: _account(out))
    options = RunOptions(out, init, allow_changed)
    result = run_training(load_config(config, settings or []), options)
    progress = result.progress
    best = "-" if progress.best is None else f"{progress.best:.4g}"
    if result.rank == 0:
        print(f"{result.out}: step {progress.step}, best {best} at {progress.best_step}")
    if result.signal:
        if result.rank == 0:
            print(last_line(result.signal, _account(out)), file=sys.stderr)
        sys.exit(128 + result.signal)


def _account(out: Path) -> str:
    """Says which checkpoint the same command would go on from."""
    from untold.durable import is_complete

    whole = [
        path.name for path in sorted((out / "checkpoints").glob("step-*")) if is_complete(path)
    ]
    saved = f"the checkpoint {whole[-1]} is" if whole else "no checkpoint is"
    return f"{saved} saved in {out}; run the same command again to go on"
