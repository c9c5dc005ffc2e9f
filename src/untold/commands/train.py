"""`untold train` trains a model or resumes a run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import Settings
from untold.errors import UntoldError
from untold.interruption import last_line, say_if_stopped

if TYPE_CHECKING:
    from untold.config import Config


def train(
    config: Annotated[Path, typer.Argument(help="A TOML file, or a run's directory to go on.")],
    settings: Settings = None,
    init: Annotated[Path | None, typer.Option(help="A model to start from, or hf:PATH.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory [runs/CONFIG].")] = None,
    allow_changed: Annotated[
        bool, typer.Option("--allow-changed", help="Resume although settings or data changed.")
    ] = False,
) -> None:
    """Train a model, or go on with a run that was stopped."""
    from untold.config import load_config
    from untold.training.run import RunOptions
    from untold.training.run import train as run_training

    if config.is_dir():
        out = _check_same(config, out)
        settled, init = _recorded(config, settings or [], init)
    else:
        out = out or Path("runs") / config.stem
        settled = load_config(config, settings or [])
    say_if_stopped(lambda: _account(out))
    result = run_training(settled, RunOptions(out, init, allow_changed))
    progress = result.progress
    best = "-" if progress.best is None else f"{progress.best:.4g}"
    if result.rank == 0:
        print(f"{result.out}: step {progress.step}, best {best} at {progress.best_step}")
    if result.signal:
        if result.rank == 0:
            print(last_line(result.signal, _account(out)), file=sys.stderr)
        sys.exit(128 + result.signal)


def _check_same(run: Path, out: Path | None) -> Path:
    """Returns the directory of the run; it writes nowhere else."""
    if out is not None and out.resolve() != run.resolve():
        raise UntoldError(f"--out {out}: the run in {run} goes on there: leave out --out")
    return run


def _recorded(run: Path, settings: list[str], init: Path | None) -> "tuple[Config, Path | None]":
    """Returns the settings of a run's last start with those of --set, and the model to begin with.

    A run with a checkpoint needs no model any more.
    """
    from untold.config import override, parse_config
    from untold.storage.model_directory import CHECKPOINTS, hugging_face_name, step_directories
    from untold.storage.summary import find_record

    record = find_record(run)
    if init is None and not step_directories(run / CHECKPOINTS):
        init = record.init
        if init is not None and hugging_face_name(init) is None and not init.exists():
            raise UntoldError(f"{run} began from {init}, which is gone: give --init MODEL")
    return parse_config(override(record.values, settings), str(run)), init


def _account(out: Path) -> str:
    """Says which checkpoint the same command would go on from."""
    from untold.files import is_complete

    found = sorted((out / "checkpoints").glob("step-*"), key=lambda path: (len(path.name), path))
    whole = [path.name for path in found if is_complete(path)]
    saved = f"the checkpoint {whole[-1]} is" if whole else "no checkpoint is"
    return f"{saved} saved in {out}; run the same command again to go on"
