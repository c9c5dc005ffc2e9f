"""Resuming a run: what may have changed since its checkpoint, and what is restored from it."""

import math
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from untold.config import Config, TrainConfig, fill_older_settings, model_config_class
from untold.errors import UntoldError
from untold.storage.model_directory import TrainedModel, absolute_model, load_weights
from untold.storage.run_record import RunRecord
from untold.training.checkpoint import Checkpoint, restore_optimizer
from untold.training.progress import Progress, early_stopping, is_over
from untold.training.training_data import TrainingData

__all__ = ["check_init", "check_unchanged", "describe_resumption", "restore", "run_facts"]

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
    "train.compile",
    "train.timeout_minutes",
    "environment.processes",  # has a line of its own
}


def run_facts(config: Config, data: TrainingData, processes: int = 1) -> dict[str, Any]:
    """Describes the settings, data, versions and processes of a run; checkpoints store it."""
    return {
        "config": _settings(config),
        "data": data.fingerprints(),
        "environment": {
            "torch": torch.__version__,
            "sentencepiece": sentencepiece.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
            "processes": processes,
        },
    }


def check_unchanged(
    checkpoint: Checkpoint, facts: dict[str, Any], say: Callable[[str], None], *, allowed: bool
) -> None:
    """Reports what has changed since the checkpoint; refuses other settings unless `allowed`."""
    falls_to_its_end = facts["config"]["train"]["schedule"] == "linear"
    free = _FREE - {"train.steps"} if falls_to_its_end else _FREE
    known = _complete(checkpoint.facts.get("config", {}))
    changed = _differences(checkpoint.facts | {"config": known}, facts, free)
    serious = [line for line in changed if not line.startswith("environment.")]
    if serious and not allowed:
        raise UntoldError(
            f"{checkpoint.directory} was made with other settings: {'; '.join(serious)}. Restore "
            "them, choose another --out, or pass --allow-changed"
        )
    if allowed and not serious:
        say("--allow-changed has no effect: nothing that matters has changed")
    for line in changed:
        say(f"changed since the checkpoint: {line}")
    before, now = (_processes(each) for each in (checkpoint.facts, facts))
    if before is not None and before != now:
        say(
            f"changed since the checkpoint: processes: {before} -> {now}: gradients are added up "
            "in another order, so that losses change by rounding; a run goes on bit for bit with "
            f"as many processes as before ({before})"
        )


def check_init(init: Path | None, record: RunRecord | None, say: Callable[[str], None]) -> None:
    """Announces that --init does nothing for a run with a checkpoint; refuses another model.

    The same command must be able to go on with the run that it began.
    """
    if init is None:
        return
    if record is not None and record.init != absolute_model(init):
        began = "without --init" if record.init is None else f"from {record.init}"
        raise UntoldError(
            f"--init {init}: the run began {began} and goes on from its own checkpoint: leave out "
            "--init, or choose another --out"
        )
    say(f"--init {init} has no effect now: the run goes on from its own checkpoint")


def describe_resumption(run: Path, progress: Progress, config: TrainConfig) -> str:
    """Says where a run goes on, or that it is finished and how to train it longer."""
    if not is_over(progress, config):
        return f"going on with {run} at step {progress.step} of {config.steps}"
    reached = {
        "steps": config.steps if progress.step >= config.steps else None,
        "epochs": config.epochs if progress.epoch >= (config.epochs or math.inf) else None,
        "patience": progress.stale if early_stopping(progress, config) else None,
    }
    raised = [f"--set train.{name}={2 * limit}" for name, limit in reached.items() if limit]
    # The linear schedule falls to its last step, so that another one changes all rates.
    changed = ["--allow-changed"] if config.schedule == "linear" else []
    return (
        f"{run} is finished at step {progress.step} of {config.steps}: to train longer, run "
        f"untold train {run} {' '.join(raised + changed)}"
    )


def restore(
    checkpoint: Checkpoint, trained: TrainedModel, optimizer: torch.optim.Optimizer
) -> Progress:
    """Restores weights and optimizer, and returns the progress of the checkpoint."""
    load_weights(trained.model, checkpoint.directory)
    restore_optimizer(checkpoint.directory, trained.model, optimizer)
    return checkpoint.progress


def _processes(facts: dict[str, Any]) -> int | None:
    """Returns how many processes made a checkpoint; older versions did not say so."""
    return facts.get("environment", {}).get("processes")


def _settings(config: Config) -> dict[str, Any]:
    """Returns the settings as JSON, without file names: the fingerprints describe the data."""
    return config.model_dump(mode="json", exclude={"data": {"train", "valid"}})


def _complete(given: dict[str, Any]) -> dict[str, Any]:
    """Brings the settings of an older version up to date.

    A setting that they lack is newer: the run had its default, or what was done before there was a
    choice. Keys of other backbones are dropped.
    """
    given = fill_older_settings(given)
    model = given.get("model", {})
    kind = model_config_class(model.get("backbone", "transformer"))
    defaults = _settings(Config(model=kind()))
    return _merge(defaults, given | {"model": kind.drop_legacy_keys(model)})


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
