"""Resuming a run: what may have changed since its checkpoint, and what is restored from it."""

import platform
from collections.abc import Callable
from typing import Any

import sentencepiece
import torch

from untold.config import Config
from untold.errors import UntoldError
from untold.storage.model_directory import TrainedModel, load_weights
from untold.training.checkpoint import Checkpoint, restore_optimizer
from untold.training.progress import Progress
from untold.training.training_data import TrainingData

__all__ = ["check_unchanged", "restore", "run_facts"]

# Settings that may change between two starts of one run, since no update depends on them.
_FREE = {
    "data.root",
    "data.bleu_tokenize",
    "train.steps",
    "train.epochs",
    "train.patience",
    "train.log_every",
    "train.validate_every",
    "train.validate_bleu",
    "train.validate_beam",
    "train.save_every",
    "train.keep",
    "train.threads",
    "train.device",
    "train.timeout_minutes",
}


def run_facts(config: Config, data: TrainingData) -> dict[str, Any]:
    """Describes the settings, data and versions of a run; checkpoints store it."""
    return {
        "config": _settings(config),
        "data": data.fingerprints(),
        "environment": {
            "torch": torch.__version__,
            "sentencepiece": sentencepiece.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
        },
    }


def check_unchanged(
    checkpoint: Checkpoint, facts: dict[str, Any], say: Callable[[str], None], *, allowed: bool
) -> None:
    """Reports what has changed since the checkpoint; refuses other settings unless `allowed`."""
    falls_to_its_end = facts["config"]["train"]["schedule"] == "linear"
    free = _FREE - {"train.steps"} if falls_to_its_end else _FREE
    # A setting that the checkpoint lacks is newer than it: the run had its default.
    known = _merge(_settings(Config()), checkpoint.facts.get("config", {}))
    changed = _differences(checkpoint.facts | {"config": known}, facts, free)
    serious = [line for line in changed if not line.startswith("environment.")]
    if serious and not allowed:
        raise UntoldError(
            f"{checkpoint.directory} was made with other settings: {'; '.join(serious)}. Restore "
            "them, choose another --out, or pass --allow-changed"
        )
    for line in changed:
        say(f"changed since the checkpoint: {line}")
    say(f"resuming from {checkpoint.directory} at step {checkpoint.progress.step}")


def restore(
    checkpoint: Checkpoint, trained: TrainedModel, optimizer: torch.optim.Optimizer
) -> Progress:
    """Restores weights and optimizer, and returns the progress of the checkpoint."""
    load_weights(trained.model, checkpoint.directory)
    restore_optimizer(checkpoint.directory, trained.model, optimizer)
    return checkpoint.progress


def _settings(config: Config) -> dict[str, Any]:
    """Returns the settings as JSON, without file names: the fingerprints describe the data."""
    return config.model_dump(mode="json", exclude={"data": {"train", "valid"}})


def _merge(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return defaults | {
        key: _merge(defaults.get(key) or {}, value) if isinstance(value, dict) else value
        for key, value in given.items()
    }


def _differences(before: Any, now: Any, free: set[str], key: str = "") -> list[str]:
    """Lists every setting that differs as `key: old -> new`, without the free ones."""
    if isinstance(before, dict) and isinstance(now, dict):
        lines = []
        for name in sorted(before.keys() | now.keys()):
            inner = f"{key}.{name}".strip(".")
            lines += _differences(before.get(name), now.get(name), free, inner)
        return lines
    name = key.removeprefix("config.")
    is_free = name in free or name.startswith("decode.")
    return [] if is_free or before == now else [f"{name}: {before} -> {now}"]
