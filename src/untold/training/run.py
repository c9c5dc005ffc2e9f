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

from untold.config import Config, model_config_class
from untold.corpus.tokenizer import Tokenizers
from untold.durable import lock_directory, remove_litter
from untold.errors import UntoldError
from untold.models.build import build_model_for
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import BEST, CHECKPOINTS, TrainedModel, load_model, load_weights
from untold.training.checkpoint import Checkpoint, Checkpoints, restore_optimizer
from untold.training.distributed import ProcessGroup
from untold.training.interruption import stop_signals
from untold.training.progress import Progress
from untold.training.reporter import NullReporter, Reporter
from untold.training.sequence.rewards import Reward, make_reward
from untold.training.sequence.sequence_goal import SequenceGoal
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer
from untold.training.training_data import TrainingData, prepare_data, prepare_tokenizers
from untold.training.validation import make_validator
from untold.training.warm_start import WarmStart, warm_start

__all__ = ["RunOptions", "TrainResult", "train"]

# Settings that may change between two sittings of one run: an update means the same with any.
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
    """How a run ended; `signal` is not zero if it was interrupted, `rank` tells processes apart."""

    out: Path
    progress: Progress
    signal: int = 0
    rank: int = 0


def train(config: Config, options: RunOptions, reporter: Reporter | None = None) -> TrainResult:
    """Train until the run is over; a run that already has checkpoints goes on from the last one."""
    device = _device(config)
    _check_shares(config, ProcessGroup.count())
    reward = _reward(config)  # what it lacks is known before anything is written
    world = ProcessGroup.join(device.type, config.train.timeout_minutes)
    try:
        if config.train.threads is not None:
            torch.set_num_threads(config.train.threads)
        voice = Reporter(options.out, config.train.steps) if reporter is None else reporter
        voice = voice if world.is_main else NullReporter(options.out, config.train.steps)
        signals = stop_signals(launched=world.size > 1)
        with _hold(options.out, world), voice, signals as interrupted:
            return _train(config, options, RunContext(world, voice, interrupted), device, reward)
    finally:
        world.leave()


def _train(
    config: Config,
    options: RunOptions,
    setting: RunContext,
    device: torch.device,
    reward: Reward | None,
) -> TrainResult:
    world, reporter = setting.world, setting.reporter
    checkpoints = Checkpoints(options.out, config.train.keep)
    checkpoint = world.share(checkpoints.latest(reporter.say) if world.is_main else None)
    starts_from = options.init if checkpoint is None else None
    other = None if starts_from is None else load_model(starts_from)
    with world.main_process_first():  # it prepares what the others only read
        tokenizers = _tokenizers(config, options, checkpoint, other)
        data = prepare_data(config, tokenizers, options.out, reporter.say)
    facts = _facts(config, data)
    if checkpoint is not None:
        _check_same(checkpoint, facts, options, reporter)
    model = _build(config, tokenizers, reporter)
    warm = None if other is None else warm_start(model, other.model)
    if warm is not None:
        reporter.say(f"starting from {starts_from}: {warm}")
    if config.train.freeze_backbone:
        _freeze(model, warm, is_resumed=checkpoint is not None)
    trained = TrainedModel(model.to(device), config, tokenizers)
    goal = None if reward is None else SequenceGoal(trained, reward)
    optimizer = make_optimizer(trained, goal)
    progress = Progress() if checkpoint is None else _restore(checkpoint, trained, optimizer)
    validate = None
    if data.valid is not None:
        validate = make_validator(trained, data.valid, data.valid_pairs)
    hooks = Hooks(validate, goal=goal)
    if world.is_main:
        save = partial(checkpoints.save, trained, optimizer, facts)
        hooks = Hooks(validate, save, partial(checkpoints.save_best, trained), goal)
    reporter.begin(progress.step)
    progress = Trainer(trained, optimizer, data.train, setting, hooks).run(progress)
    world.wait()
    return TrainResult(options.out, progress, setting.interrupted.signal, world.rank)


def _tokenizers(
    config: Config, options: RunOptions, checkpoint: Checkpoint | None, other: TrainedModel | None
) -> Tokenizers:
    """Those that the weights know, whatever has changed since; else the run's own."""
    if checkpoint is not None:
        return Tokenizers.load(checkpoint.directory)
    return other.tokenizers if other else prepare_tokenizers(config, options.out)


def _build(config: Config, tokenizers: Tokenizers, reporter: Reporter) -> Seq2Seq:
    """The model as it is before its first update."""
    sizes = (len(tokenizers.source), len(tokenizers.target))
    torch.manual_seed(config.train.seed)
    model = build_model_for(tokenizers, config.model)
    parameters = sum(p.numel() for p in model.parameters())
    reporter.say(f"vocabulary {sizes[0]} + {sizes[1]}, {parameters:,} parameters")
    return model


def _freeze(model: Seq2Seq, warm: WarmStart | None, *, is_resumed: bool) -> None:
    if warm is None and not is_resumed:
        raise UntoldError(
            "train.freeze_backbone keeps the model that a run starts from: name one with --init"
        )
    translating = ("backbone.", "copy_layer.")
    if strange := [name for name in (warm.new if warm else ()) if name.startswith(translating)]:
        raise UntoldError(
            f"train.freeze_backbone: the model of --init has no {strange[0]} of the same shape "
            f"({len(strange)} such tensors), which would stay untrained: give [model] its shape"
        )
    model.freeze_backbone()


def _restore(
    checkpoint: Checkpoint, trained: TrainedModel, optimizer: torch.optim.Optimizer
) -> Progress:
    """Weights, optimizer and progress as they were when the checkpoint was written."""
    load_weights(trained.model, checkpoint.directory)
    restore_optimizer(checkpoint.directory, trained.model, optimizer)
    return checkpoint.progress


def _check_same(
    checkpoint: Checkpoint, facts: dict[str, Any], options: RunOptions, reporter: Reporter
) -> None:
    """Refuse to go on with another run's settings or data, unless told to."""
    falls_to_its_end = facts["config"]["train"]["schedule"] == "linear"
    free = _FREE - {"train.steps"} if falls_to_its_end else _FREE
    changed = _differences(_completed(checkpoint.facts), facts, free)
    serious = [line for line in changed if not line.startswith("environment.")]
    if serious and not options.allow_changed:
        raise UntoldError(
            f"{checkpoint.directory} was made with other settings: {'; '.join(serious)}. Restore "
            "them, choose another --out, or pass --allow-changed"
        )
    for line in changed:
        reporter.say(f"changed since the checkpoint: {line}")
    reporter.say(f"resuming from {checkpoint.directory} at step {checkpoint.progress.step}")


def _completed(facts: dict[str, Any]) -> dict[str, Any]:
    """A setting that a checkpoint does not know is newer than it, and had its default."""
    given = facts.get("config", {})
    model = given.get("model", {})
    settings = model_config_class(model.get("backbone", "transformer"))
    defaults = _settings(Config(model=settings()))
    return facts | {
        "config": _merged(defaults, given | {"model": settings.drop_legacy_keys(model)})
    }


def _merged(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return defaults | {
        key: _merged(defaults.get(key) or {}, value) if isinstance(value, dict) else value
        for key, value in given.items()
    }


def _differences(before: Any, now: Any, free: set[str], key: str = "") -> list[str]:
    """Every setting that differs, as `key: old -> new`; free ones are left out."""
    if isinstance(before, dict) and isinstance(now, dict):
        lines = []
        for name in sorted(before.keys() | now.keys()):
            inner = f"{key}.{name}".strip(".")
            lines += _differences(before.get(name), now.get(name), free, inner)
        return lines
    name = key.removeprefix("config.")
    is_free = name in free or name.startswith("decode.")
    return [] if is_free or before == now else [f"{name}: {before} -> {now}"]


def _settings(config: Config) -> dict[str, Any]:
    """As JSON has them; which files the data are in does not matter, what is in them does."""
    return config.model_dump(mode="json", exclude={"data": {"train", "valid"}})


def _facts(config: Config, data: TrainingData) -> dict[str, Any]:
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
    torch.cuda.set_device(ProcessGroup.local())
    return torch.device("cuda", ProcessGroup.local())


def _reward(config: Config) -> Reward | None:
    """None: the run does not learn from whole translations."""
    sequence = config.train.sequence
    return make_reward(sequence, config.data.bleu_tokenize) if sequence.is_on else None


def _check_shares(config: Config, processes: int) -> None:
    if config.train.accumulate % processes:
        raise UntoldError(
            f"train.accumulate = {config.train.accumulate} batches an update cannot be shared "
            f"evenly by {processes} processes: make it a multiple of {processes}"
        )


@contextmanager
def _hold(out: Path, world: ProcessGroup) -> Iterator[None]:
    """One run a directory: the first process locks it and clears what a crash left."""
    with lock_directory(out) if world.is_main else nullcontext():
        if world.is_main:
            for parent in (out, out / CHECKPOINTS, out / BEST, out / "corpus"):
                remove_litter(parent)
        yield
