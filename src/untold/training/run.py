"""One training run, from configuration to best model: set up, resume or warm-start, train."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from untold.config import Config
from untold.durable import lock_directory, remove_litter
from untold.errors import UntoldError
from untold.models.build import build_model
from untold.models.files import BEST, CHECKPOINTS, TrainedModel, load_model, read_tensors
from untold.training.checkpoints import Checkpoint, Checkpoints, restore_optimizer
from untold.training.data import TrainingData, prepare_data, prepare_tokenizers
from untold.training.loop import Interrupted, Trainer, make_optimizer, stop_signals
from untold.training.progress import Progress
from untold.training.reporter import Reporter, Silence
from untold.training.validation import make_validator
from untold.training.warmstart import warm_start
from untold.training.world import World

__all__ = ["RunOptions", "TrainResult", "train"]

# Settings that may change between two sittings of one run: none of them alters an update.
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


@dataclass(frozen=True)
class RunOptions:
    """How to start: where to write, what to begin from, and whether a changed resume is allowed."""

    out: Path
    init: Path | None = None
    allow_changed: bool = False


@dataclass(frozen=True)
class TrainResult:
    """How a run ended; `signal` is not zero if it was interrupted."""

    out: Path
    progress: Progress
    signal: int = 0


def train(config: Config, options: RunOptions, reporter: Reporter | None = None) -> TrainResult:
    """Train until the run is over; a run that already has checkpoints goes on from the last one."""
    device = _device(config)
    world = World.join(device.type, config.train.timeout_minutes)
    try:
        _check_world(config, world)
        if config.train.threads is not None:
            torch.set_num_threads(config.train.threads)
        voice = Reporter(options.out, config.train.steps) if reporter is None else reporter
        voice = voice if world.is_first else Silence(options.out, config.train.steps)
        with _hold(options.out, world), voice, stop_signals() as interrupted:
            return _train(config, options, _Setting(device, world, voice, interrupted))
    finally:
        world.leave()


@dataclass(frozen=True)
class _Setting:
    """What surrounds a run."""

    device: torch.device
    world: World
    reporter: Reporter
    interrupted: Interrupted


def _train(config: Config, options: RunOptions, setting: _Setting) -> TrainResult:
    world, reporter = setting.world, setting.reporter
    trained, data = _begin(config, options, setting)
    facts = _facts(config, data)
    optimizer = make_optimizer(trained)
    checkpoints = Checkpoints(options.out, config.train.keep)
    progress = _resume(checkpoints, trained, optimizer, facts, options, reporter)
    reporter.begin(progress.step)
    trainer = Trainer(trained, optimizer, data.train, world, reporter)
    if data.valid is not None:
        trainer.validate = make_validator(trained, data.valid, data.valid_pairs)
    if world.is_first:
        trainer.save = partial(_save, checkpoints, trained, optimizer, facts)
        trainer.save_best = partial(checkpoints.save_best, trained)
    progress = trainer.run(progress, setting.interrupted)
    world.wait()
    return TrainResult(options.out, progress, setting.interrupted.signal)


def _save(
    checkpoints: Checkpoints,
    trained: TrainedModel,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    progress: Progress,
) -> None:
    checkpoints.save(trained, optimizer, progress, facts)


def _begin(
    config: Config, options: RunOptions, setting: _Setting
) -> tuple[TrainedModel, TrainingData]:
    """Tokenizers, data and the model as it is before its first update."""
    world, say = setting.world, setting.reporter.say
    other = None if options.init is None else load_model(options.init)
    if not world.is_first:
        world.wait()  # the first process prepares what the others only read
    tokenizers = other.tokenizers if other else prepare_tokenizers(config, options.out)
    data = prepare_data(config, tokenizers, options.out, say)
    if world.is_first:
        world.wait()
    sizes = (len(tokenizers.source), len(tokenizers.target))
    torch.manual_seed(config.train.seed)
    model = build_model(config.model, sizes, shared=tokenizers.joint)
    if other is not None:
        say(f"starting from {options.init}: {warm_start(model, other.model)}")
    say(f"vocabulary {sizes[0]} + {sizes[1]}, {sum(p.numel() for p in model.parameters()):,} parameters")
    return TrainedModel(model.to(setting.device), config, tokenizers), data


def _resume(
    checkpoints: Checkpoints,
    trained: TrainedModel,
    optimizer: torch.optim.Optimizer,
    facts: dict[str, Any],
    options: RunOptions,
    reporter: Reporter,
) -> Progress:
    """Go on from the last whole checkpoint, if there is one and it belongs to this run."""
    checkpoint = checkpoints.latest(reporter.say)
    if checkpoint is None:
        return Progress()
    _check_same(checkpoint, facts, options, reporter)
    weights = read_tensors(checkpoint.directory / "model.safetensors")
    with torch.no_grad():
        for name, parameter in trained.model.named_parameters():
            parameter.copy_(weights[name])
    restore_optimizer(checkpoint.directory, trained.model, optimizer)
    reporter.say(f"resuming from {checkpoint.directory} at step {checkpoint.progress.step}")
    return checkpoint.progress


def _check_same(
    checkpoint: Checkpoint, facts: dict[str, Any], options: RunOptions, reporter: Reporter
) -> None:
    changed = _differences(checkpoint.facts, facts)
    serious = [line for line in changed if not line.startswith("environment.")]
    if serious and not options.allow_changed:
        raise UntoldError(
            f"{checkpoint.directory} was made with other settings: {'; '.join(serious)}. Restore "
            "them, choose another --out, or pass --allow-changed"
        )
    for line in changed:
        reporter.say(f"changed since the checkpoint: {line}")


def _differences(before: Any, now: Any, key: str = "") -> list[str]:
    """Every setting that differs, as `key: old -> new`; free ones are left out."""
    if isinstance(before, dict) and isinstance(now, dict):
        lines = []
        for name in sorted(before.keys() | now.keys()):
            lines += _differences(before.get(name), now.get(name), f"{key}.{name}".strip("."))
        return lines
    name = key.removeprefix("config.")
    free = name in _FREE or name.startswith("decode.")
    return [] if free or before == now else [f"{name}: {before} -> {now}"]


def _facts(config: Config, data: TrainingData) -> dict[str, Any]:
    return {
        "config": config.model_dump(mode="json", exclude={"data": {"train", "valid"}}),
        "data": data.fingerprints(),
        "environment": {
            "torch": torch.__version__,
            "sentencepiece": sentencepiece.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
        },
    }


def _device(config: Config) -> torch.device:
    wanted = config.train.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UntoldError('train.device = "cuda": torch sees no GPU here; use "cpu" or "auto"')
    use_cuda = wanted != "cpu" and torch.cuda.is_available()
    if config.train.precision == "bf16" and not (use_cuda and torch.cuda.is_bf16_supported()):
        raise UntoldError(
            'train.precision = "bf16" needs a GPU that computes in bf16; use "fp32" here'
        )
    if not use_cuda:
        return torch.device("cpu")
    torch.cuda.set_device(World.local())
    return torch.device("cuda", World.local())


def _check_world(config: Config, world: World) -> None:
    if config.train.accumulate % world.size:
        raise UntoldError(
            f"train.accumulate = {config.train.accumulate} batches an update cannot be shared "
            f"evenly by {world.size} processes: make it a multiple of {world.size}"
        )


@contextmanager
def _hold(out: Path, world: World) -> Iterator[None]:
    """One run a directory: the first process locks it and clears what a crash left."""
    with lock_directory(out) if world.is_first else nullcontext():
        if world.is_first:
            for parent in (out, out / CHECKPOINTS, out / BEST, out / "corpus"):
                remove_litter(parent)
        yield
