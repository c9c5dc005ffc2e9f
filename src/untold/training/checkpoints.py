"""A run's checkpoints: each a whole model directory with the optimizer and the progress beside it.

`latest` is never a link but the newest directory that proves whole; a damaged one is named and the
one before it is used.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from untold.durable import is_complete, new_directory, verify_directory
from untold.errors import UntoldError
from untold.models.files import (
    BEST,
    CHECKPOINTS,
    TrainedModel,
    fill_model_directory,
    read_tensors,
    save_model,
    step_directories,
)
from untold.training.progress import Progress

__all__ = ["Checkpoint", "Checkpoints", "restore_optimizer"]

OPTIMIZER, PROGRESS = "optimizer.safetensors", "progress.json"


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint on disk."""

    directory: Path
    progress: Progress
    facts: dict[str, Any]  # what the run was made with: config, data, threads, versions


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints below one run directory."""

    run: Path
    keep: int

    def save(
        self,
        trained: TrainedModel,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        facts: dict[str, Any],
    ) -> None:
        """Write a checkpoint unless it exists, then remove all but the newest few."""
        _refuse_non_finite(trained, progress)
        path = self.run / CHECKPOINTS / _name(progress.step)
        if is_complete(path):
            return
        with new_directory(path, replace=True) as directory:
            fill_model_directory(directory, trained)
            save_file(_optimizer_tensors(trained.model, optimizer), directory / OPTIMIZER)
            document = {"progress": progress.as_json(), "facts": facts}
            (directory / PROGRESS).write_text(json.dumps(document, indent=1) + "\n")
        _remove_all_but(step_directories(self.run / CHECKPOINTS), self.keep)

    def save_best(self, trained: TrainedModel, progress: Progress) -> None:
        """Write the best model; the one before it goes only when the new one is whole."""
        _refuse_non_finite(trained, progress)
        save_model(self.run / BEST / _name(progress.step), trained, replace=True)
        _remove_all_but(step_directories(self.run / BEST), 1)

    def latest(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The newest checkpoint that is whole; damaged ones are named and passed over."""
        for directory in reversed(step_directories(self.run / CHECKPOINTS)):
            try:
                return _read(directory)
            except UntoldError as error:
                warn(f"passing over a damaged checkpoint: {error}")
        return None


def restore_optimizer(
    directory: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Put back the optimizer's memory, tensor by tensor."""
    tensors = read_tensors(directory / OPTIMIZER)
    for name, parameter in model.named_parameters():
        state = {
            key.split("/", 1)[0]: value.to("cpu" if key.startswith("step/") else parameter.device)
            for key, value in tensors.items()
            if key.split("/", 1)[1] == name
        }
        if state:
            optimizer.state[parameter] = state


def _optimizer_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    return {
        f"{key}/{name}": value.detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _read(directory: Path) -> Checkpoint:
    verify_directory(directory)
    try:
        document = json.loads((directory / PROGRESS).read_text(encoding="utf-8"))
        return Checkpoint(directory, Progress(**document["progress"]), document["facts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UntoldError(f"{directory}: {PROGRESS} cannot be used: {error}") from None


def _refuse_non_finite(trained: TrainedModel, progress: Progress) -> None:
    for name, parameter in trained.model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise UntoldError(
                f"step {progress.step}: {name} is no longer finite, so nothing was written; resume "
                "from the last checkpoint with a lower train.learning_rate"
            )


def _remove_all_but(directories: list[Path], keep: int) -> None:
    for directory in directories[:-keep]:
        shutil.rmtree(directory, ignore_errors=True)


def _name(step: int) -> str:
    return f"step-{step:08d}"
