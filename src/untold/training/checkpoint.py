"""Checkpoints of a run: each is a model directory that also holds the optimizer and the progress.

The latest checkpoint is the newest directory whose checksums are right; damaged ones are reported
and passed over.

Resuming a run: what may have changed since its checkpoint, and what is restored from it.
"""

import json
import logging
import math
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from untold.config import Config, TrainConfig, model_config_class
from untold.config.older import bring_up_to_date, lost_values
from untold.errors import UntoldError, shorten
from untold.files import new_directory, verify_directory
from untold.storage.model_directory import (
    BEST,
    CHECKPOINTS,
    TrainedModel,
    absolute_model,
    fill_model_directory,
    read_tensors,
    save_model,
    step_directories,
    write_tensors,
)
from untold.storage.summary import RunRecord
from untold.training.data import TrainingData
from untold.training.progress import Progress, early_stopping, is_over
from untold.training.sharding import sharded_like, whole_tensor

logger = logging.getLogger(__name__)

OPTIMIZER, PROGRESS = "optimizer.safetensors", "progress.json"
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
        memory: dict[str, Tensor],
        facts: dict[str, Any],
        progress: Progress,
    ) -> None:
        """Writes a checkpoint with the optimizer's `memory`, then removes all but the newest few.

        Checkpoints of later steps are damaged and were passed over: they do not count, and stay
        until the run comes to their step again.
        """
        _refuse_non_finite(memory, progress.step)
        _refuse_non_finite(dict(trained.model.named_parameters()), progress.step)
        path = self.run / CHECKPOINTS / _name(progress.step)
        with new_directory(path, replace=True) as directory:
            write_tensors(directory / OPTIMIZER, memory)
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

    def latest(self) -> Checkpoint | None:
        """Returns the newest intact checkpoint; reports damaged ones and passes them over.

        None means a new run. If all are damaged, the user must decide to start over.
        """
        directories = step_directories(self.run / CHECKPOINTS)
        for directory in reversed(directories):
            try:
                return _read(directory)
            except UntoldError as error:
                logger.warning("passing over a damaged checkpoint: %s", error)
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
    if not (directory / OPTIMIZER).exists():
        raise UntoldError(
            f"{directory} has no {OPTIMIZER}: an older version kept it in parts, by process; begin "
            "another run from its weights with --init"
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
            optimizer.state[parameters[name]][kind] = sharded_like(value, parameters[name])


def optimizer_tensors(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Returns the whole state of the optimizer and the weights of the judges, by name."""
    judges = _judges(optimizer)
    memory = {
        f"{key}/{name}": whole_tensor(value.detach()).cpu().contiguous()
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


# Settings that may change between two starts of one run, since no update depends on them.
_FREE = {
    "data.root",
    "data.bleu_tokenize",
    "train.steps",
    "train.epochs",
    "train.patience",
    "train.log_every",
    "train.validate_every",
    "train.save_every",
    "train.keep",
    "train.device",
    *("train.validate_bleu", "train.validate_beam", "train.max_skipped"),  # of older versions
    *("train.compile", "train.threads", "train.timeout_minutes"),
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


def check_unchanged(checkpoint: Checkpoint, facts: dict[str, Any], *, allowed: bool) -> None:
    """Reports what has changed since the checkpoint; refuses other settings unless `allowed`."""
    falls_to_its_end = facts["config"]["train"]["schedule"] == "linear"
    free = _FREE - {"train.steps"} if falls_to_its_end else _FREE
    given = checkpoint.facts.get("config", {})
    changed = _differences(checkpoint.facts | {"config": _complete(given)}, facts, free)
    lost = lost_values(given)
    changed += [f"{key}: {old} -> {new}" for key, old, new in lost if key not in free]
    serious = [line for line in changed if not line.startswith("environment.")]
    if serious and not allowed:
        raise UntoldError(
            f"{checkpoint.directory} was made with other settings: {'; '.join(serious)}. Restore "
            "them, choose another --out, or pass --allow-changed"
        )
    if allowed and not serious:
        logger.info("--allow-changed has no effect: nothing that matters has changed")
    for line in changed:
        logger.info("changed since the checkpoint: %s", line)
    before, now = (_processes(each) for each in (checkpoint.facts, facts))
    if before is not None and before != now:
        logger.info(
            "changed since the checkpoint: processes: %s -> %s: gradients are added up in another "
            "order, so that losses change by rounding; a run goes on bit for bit with as many "
            "processes as before (%s)",
            before,
            now,
            before,
        )


def check_init(init: Path | None, record: RunRecord | None) -> None:
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
    logger.info("--init %s has no effect now: the run goes on from its own checkpoint", init)


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
    given = bring_up_to_date(given)
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
