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

from untold.durable import new_directory, verify_directory
from untold.errors import UntoldError
from untold.storage.model_directory import (
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
_WEIGHT, _JUDGES = "weight", "judges"  # of what learns beside the model, in OPTIMIZER


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
        facts: dict[str, Any],
        progress: Progress,
    ) -> None:
        """Write a checkpoint, then remove all but the newest few up to it.

        Later ones, if any, are damaged and were passed over: they count for nothing, and stay
        until the run comes to their step again.
        """
        memory = _optimizer_tensors(trained.model, optimizer)
        _refuse_non_finite(dict(trained.model.named_parameters()) | memory, progress.step)
        path = self.run / CHECKPOINTS / _name(progress.step)
        with new_directory(path, replace=True) as directory:
            fill_model_directory(directory, trained)
            save_file(memory, directory / OPTIMIZER)
            document = {"progress": progress.as_json(), "facts": facts}
            (directory / PROGRESS).write_text(json.dumps(document, indent=1) + "\n")
        written = step_directories(self.run / CHECKPOINTS)
        _remove(written[: written.index(path) + 1][: -self.keep])

    def save_best(self, trained: TrainedModel, progress: Progress) -> None:
        """Write the best model; the one before it goes only when the new one is whole."""
        _refuse_non_finite(dict(trained.model.named_parameters()), progress.step)
        path = self.run / BEST / _name(progress.step)
        save_model(path, trained, replace=True)
        _remove([other for other in step_directories(self.run / BEST) if other != path])

    def latest(self, warn: Callable[[str], None]) -> Checkpoint | None:
        """The newest checkpoint that is whole; damaged ones are named and passed over.

        None for a new run; but if all are damaged, starting over must be someone's decision.
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
    """Put back the optimizer's memory, tensor by tensor, and the judges that it holds."""
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
    """Networks that learn beside the model, by their names: no part of a model directory."""
    groups = optimizer.param_groups
    pairs = (zip(g["judges"], g["params"], strict=True) for g in groups if "judges" in g)
    return {f"{_JUDGES}.{name}": parameter for some in pairs for name, parameter in some}


def _read(directory: Path) -> Checkpoint:
    verify_directory(directory)
    try:
        document = json.loads((directory / PROGRESS).read_text(encoding="utf-8"))
        return Checkpoint(directory, Progress(**document["progress"]), document["facts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UntoldError(f"{directory}: {PROGRESS} cannot be used: {error}") from None


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
