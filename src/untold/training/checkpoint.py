"""Checkpoints of a run: each is a model directory that also holds the optimizer and the progress.

The latest checkpoint is the newest directory whose checksums are right; damaged ones are reported
and passed over.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from untold.durable import new_directory, verify_directory
from untold.errors import UntoldError, shorten
from untold.storage.model_directory import (
    BEST,
    CHECKPOINTS,
    TrainedModel,
    fill_model_directory,
    read_tensors,
    save_model,
    step_directories,
    write_tensors,
)
from untold.training.progress import Progress

__all__ = ["OPTIMIZER_SHARDS", "Checkpoint", "Checkpoints", "restore_optimizer"]

OPTIMIZER, PROGRESS = "optimizer.safetensors", "progress.json"
OPTIMIZER_SHARDS = "optimizer"  # the directory that sharded runs have instead of OPTIMIZER
_WEIGHT, _JUDGES = "weight", "judges"  # parts of names in OPTIMIZER


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint on disk."""

    directory: Path
    progress: Progress
    facts: dict[str, Any]  # config, data, threads and versions of the run: see resume.py


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints below one run directory."""

    run: Path
    keep: int

    def save(
        self,
        trained: TrainedModel,
        optimizer: torch.optim.Optimizer,
        facts: dict[str, Any],
        progress: Progress,
    ) -> None:
        """Writes a checkpoint, then removes all but the newest few up to it.

        Checkpoints of later steps are damaged and were passed over: they do not count, and stay
        until the run comes to their step again.
        """
        memory = _optimizer_tensors(trained.model, optimizer)
        _refuse_non_finite(memory, progress.step)
        with self.new_directory(trained, facts, progress) as directory:
            write_tensors(directory / OPTIMIZER, memory)

    @contextmanager
    def new_directory(
        self, trained: TrainedModel, facts: dict[str, Any], progress: Progress
    ) -> Iterator[Path]:
        """Yields the directory of a new checkpoint, for the optimizer; all else is added."""
        _refuse_non_finite(dict(trained.model.named_parameters()), progress.step)
        path = self.run / CHECKPOINTS / _name(progress.step)
        with new_directory(path, replace=True) as directory:
            yield directory
            fill_model_directory(directory, trained)
            document = {"progress": progress.as_json(), "facts": facts}
            (directory / PROGRESS).write_text(
                json.dumps(document, indent=1) + "\n", encoding="utf-8"
            )
        written = step_directories(self.run / CHECKPOINTS)
        _remove(written[: written.index(path) + 1][: -self.keep])

    def save_best(self, trained: TrainedModel, progress: Progress) -> None:
        """Writes the best model, and removes the one before it when the new one is complete."""
        _refuse_non_finite(dict(trained.model.named_parameters()), progress.step)
        path = self.run / BEST / _name(progress.step)
        save_model(path, trained, replace=True)
        _remove([other for other in step_directories(self.run / BEST) if other != path])

    def latest(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """Returns the newest intact checkpoint; reports damaged ones and passes them over.

        None means a new run. If all are damaged, the user must decide to start over.
        """
        directories = step_directories(self.run / CHECKPOINTS)
        for directory in reversed(directories):
            try:
                return _read(directory)
            except UntoldError as error:
                warn(f"passing over a damaged checkpoint: {error}")
        if directories:
            raise UntoldError(
                f"{self.run / CHECKPOINTS}: every checkpoint is damaged: remove them to start "
                "over, or choose another --out"
            )
        return None


def restore_optimizer(
    directory: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Restores the state of the optimizer, and the weights of the judges stored with it."""
    if (directory / OPTIMIZER_SHARDS).is_dir():
        raise UntoldError(
            f"{directory} was made by processes that shared the model: start several with torchrun "
            "and train.shard = true"
        )
    judges = _judges(optimizer)
    parameters = dict(model.named_parameters()) | judges
    tensors = read_tensors(directory / OPTIMIZER)
    if missing := [name for name in judges if f"{_WEIGHT}/{name}" not in tensors]:
        raise UntoldError(f"{directory}: {OPTIMIZER} lacks {missing[0]}")
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in parameters or value.shape not in (parameters[name].shape, ()):
            raise UntoldError(f"{directory}: {OPTIMIZER} has {key}, which does not fit the model")
        if kind == _WEIGHT:
            parameters[name].data.copy_(value)
        else:
            optimizer.state[parameters[name]][kind] = value.to(parameters[name].device)


def _optimizer_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    judges = _judges(optimizer)
    memory = {
        f"{key}/{name}": value.detach().cpu().contiguous()
        for name, parameter in (dict(model.named_parameters()) | judges).items()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    weights = {f"{_WEIGHT}/{name}": p.detach().cpu().contiguous() for name, p in judges.items()}
    return memory | weights


def _judges(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns the parameters of critic and discriminator by name; no model directory has them."""
    groups = optimizer.param_groups
    pairs = (zip(g["judges"], g["params"], strict=True) for g in groups if "judges" in g)
    return {f"{_JUDGES}.{name}": parameter for some in pairs for name, parameter in some}


def _read(directory: Path) -> Checkpoint:
    verify_directory(directory)
    try:
        document = json.loads((directory / PROGRESS).read_text(encoding="utf-8"))
        return Checkpoint(directory, Progress.from_json(document["progress"]), document["facts"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UntoldError(f"{directory}: {PROGRESS} cannot be used: {shorten(error)}") from None


def _refuse_non_finite(tensors: dict[str, Tensor], step: int) -> None:
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise UntoldError(
                f"step {step}: {name} is no longer finite, so nothing was written; resume from the "
                "last checkpoint with a lower train.learning_rate and --allow-changed"
            )


def _remove(directories: list[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _name(step: int) -> str:
    return f"step-{step:08d}"
