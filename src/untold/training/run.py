"""One training run: sets up data, model and objective, resumes or warm-starts, and trains."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from untold.config import Config
from untold.files import lock_directory, remove_litter
from untold.interruption import Interrupted, stop_signals
from untold.storage.model_directory import BEST, CHECKPOINTS, TrainedModel, load_weights
from untold.storage.summary import write_record
from untold.training.checkpoint import (
    Checkpoints,
    check_unchanged,
    describe_resumption,
    optimizer_tensors,
    run_facts,
)
from untold.training.data import TrainingData, prepare_data
from untold.training.distributed import ProcessGroup
from untold.training.log import NullReporter, Reporter
from untold.training.losses.objective import Objective
from untold.training.preflight import (
    check_settings,
    choose_device,
    choose_objective,
    settle_precision,
)
from untold.training.progress import Progress, Validation
from untold.training.sharding import ShardedModel, check_sharding
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer
from untold.training.validation import calibrate_best, make_validator
from untold.training.warm_start import (
    RunOptions,
    build_model,
    find_start,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainResult:
    """Says how a run ended; `signal` is not zero if it was interrupted."""

    out: Path
    progress: Progress
    signal: int = 0
    rank: int = 0


def train(config: Config, options: RunOptions, reporter: Reporter | None = None) -> TrainResult:
    """Trains until the run is over; a run with checkpoints goes on from the last one."""
    device = choose_device(config)
    check_settings(config, options.out, device)  # fails before anything is written
    make_objective = choose_objective(config)
    processes = ProcessGroup.init(device.type)
    try:
        if not processes.is_main:
            reporter = NullReporter(options.out, config.train.steps)
        reporter = reporter or Reporter(options.out, config.train.steps)
        context = RunContext(processes, reporter, Interrupted())
        # A launcher's processes must agree when to stop, so they note signals from the beginning.
        patient = processes.world_size > 1
        signals = stop_signals(context.interrupted, launched=True) if patient else nullcontext()
        with _lock(options.out, processes), reporter, signals:
            return _train(config, options, context, device, make_objective)
    finally:
        processes.destroy()


def _train(
    config: Config,
    options: RunOptions,
    context: RunContext,
    device: torch.device,
    make_objective: Callable[[TrainedModel], Objective],
) -> TrainResult:
    processes = context.processes
    is_sharded = config.train.shard and processes.world_size > 1
    if is_sharded:
        check_sharding(config, processes.world_size)
    start = find_start(config, options, processes)
    config = settle_precision(start.complete(config), processes, device)
    with processes.main_process_first():  # it prepares the files that the others read
        data = prepare_data(config, start.tokenizers, options.out)
    facts = run_facts(config, data, processes.world_size)
    if start.checkpoint is not None:
        check_unchanged(start.checkpoint, facts, allowed=options.allow_changed)
        logger.info(describe_resumption(options.out, start.checkpoint.progress, config.train))
    if processes.is_main:
        write_record(options.out, config, start.init)
    model = build_model(config, data.tokenizers, start, options.out if processes.is_main else None)
    trained = TrainedModel(model if is_sharded else model.to(device), config, data.tokenizers)
    if start.checkpoint is not None:
        load_weights(model, start.checkpoint.directory)
    objective = make_objective(trained)
    shards = ShardedModel(trained, objective, processes, device) if is_sharded else None
    optimizer = make_optimizer(trained, objective)
    progress = start.restore(model, optimizer)
    checkpoints = Checkpoints(options.out, config.train.keep)
    files = _RunFiles(checkpoints, trained, optimizer, facts, processes, shards)
    hooks = Hooks(
        _validator(data, files.whole, context), files.save, files.save_best, objective, shards
    )
    trainer = Trainer(trained, optimizer, data.train, context, hooks)
    # A single process lets a signal wait for the end of an update, but not before the first one.
    patience = nullcontext() if processes.world_size > 1 else stop_signals(context.interrupted)
    with patience:
        context.reporter.begin(progress.step)
        progress = trainer.run(progress)
        if processes.is_main and options.calibrate:
            calibrate_best(options.out, data.valid_pairs, context.interrupted)
    processes.barrier()
    return TrainResult(options.out, progress, context.interrupted.signal, processes.rank)


def _validator(
    data: TrainingData, trained: TrainedModel, context: RunContext
) -> Callable[[], Validation] | None:
    if data.valid is None:
        return None
    return make_validator(trained, data.valid, data.valid_pairs, context.interrupted)


@dataclass(frozen=True)
class _RunFiles:
    """Writes the checkpoints of a run, in the main process alone.

    All processes call `save` and `save_best`: those that share a model give their parts of it.
    """

    checkpoints: Checkpoints
    trained: TrainedModel
    optimizer: torch.optim.Optimizer
    facts: dict[str, Any]
    processes: ProcessGroup
    shards: ShardedModel | None

    @property
    def whole(self) -> TrainedModel:
        """Returns the model that is written and validated."""
        twin = None if self.shards is None else self.shards.twin
        return twin or self.trained

    def save(self, progress: Progress) -> None:
        """Writes a checkpoint."""
        if self.shards is not None:
            self.shards.gather()
        elif not self.processes.is_main:
            return
        memory = optimizer_tensors(self.trained.model, self.optimizer)
        if self.processes.is_main:
            self.checkpoints.save(self.whole, memory, self.facts, progress)

    def save_best(self, progress: Progress) -> None:
        """Writes the best model, which is an ordinary model directory."""
        if self.shards is not None:
            self.shards.gather()
        if self.processes.is_main:
            self.checkpoints.save_best(self.whole, progress)


@contextmanager
def _lock(out: Path, processes: ProcessGroup) -> Iterator[None]:
    """Locks the directory of the run and clears what a crash left, in the main process."""
    with lock_directory(out) if processes.is_main else nullcontext():
        if processes.is_main:
            for parent in (out, out / CHECKPOINTS, out / BEST, out / "corpus"):
                remove_litter(parent)
        yield
