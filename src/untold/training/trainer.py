"""The trainer: its updates depend only on (seed, step) and the weights.

Before each batch the random generator is seeded with (seed, step, place of the batch in the
update). So a resumed run repeats an uninterrupted one bit for bit, and two processes that share an
update draw the same dropout as one process that makes it alone.
"""

import logging
import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from untold.config import TrainConfig
from untold.corpus.batching import Batch, BatchPlan, PairStore, plan_epoch
from untold.errors import UntoldError
from untold.interruption import Interrupted, PutOffError
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.log import Meter, Reporter, Update
from untold.training.losses.objective import Objective
from untold.training.progress import Progress, Validation, after_validation, is_over
from untold.training.sharding import ShardedModel, whole_tensor

logger = logging.getLogger(__name__)

_BETAS, _EPSILON = (0.9, 0.98), 1e-9  # of Adam, as in the paper
_LOWEST_RATE = 1e-9  # after the warm-up
_MOST_SKIPPED = 5  # updates in a row without a finite gradient
_SHOWN = 8  # pairs that one message names at most


def _nothing(_: Progress) -> None:
    """Does nothing: the hook of a process that writes no files."""


@dataclass(frozen=True)
class Hooks:
    """Connects a trainer to the files of its run; only the main process calls `validate`.

    Without `objective` the trainer minimises the plain one.
    """

    validate: Callable[[], Validation] | None = None
    save: Callable[[Progress], None] = _nothing
    save_best: Callable[[Progress], None] = _nothing
    objective: Objective | None = None
    shards: ShardedModel | None = None


@dataclass(frozen=True)
class RunContext:
    """Holds the processes of a run, its reporter, and the signal that asks it to stop."""

    processes: ProcessGroup
    reporter: Reporter
    interrupted: Interrupted


def make_optimizer(
    trained: TrainedModel, objective: Objective | None = None
) -> torch.optim.Optimizer:
    """Makes Adam in the fused form, which is the fastest.

    The judges of an objective have a group of their own with their names, since checkpoints save
    them with the optimizer.
    """
    config = trained.config.train
    groups: dict[float, list[torch.nn.Parameter]] = {}
    for name, parameter in trained.model.named_parameters():
        if parameter.requires_grad:
            factor = config.separator_rate if name.startswith("past_future.") else 1.0
            groups.setdefault(factor, []).append(parameter)
    learners: list[dict[str, Any]] = [
        {"params": parameters, "factor": factor} for factor, parameters in groups.items()
    ]
    if judges := {} if objective is None else dict(objective.judges.named_parameters()):
        group = {"params": list(judges.values()), "judges": list(judges)}
        learners.append(group | {"factor": 1.0})
    return torch.optim.Adam(
        learners, lr=config.learning_rate, betas=_BETAS, eps=_EPSILON, fused=True
    )


def learning_rate(config: TrainConfig, step: int) -> float:
    """Computes the rate of update `step` (from 1): a linear warm-up to the peak, then the schedule.

    inverse_sqrt: peak * sqrt(warmup / step); linear: down to zero after the last of `steps`;
    constant: the peak.
    """
    if step <= config.warmup:
        return config.learning_rate * step / config.warmup
    if config.schedule == "inverse_sqrt":
        rate = config.learning_rate * (max(1, config.warmup) / step) ** 0.5
    elif config.schedule == "linear":
        rate = config.learning_rate * (config.steps + 1 - step) / (config.steps + 1 - config.warmup)
    else:
        rate = config.learning_rate
    return max(rate, min(_LOWEST_RATE, config.learning_rate))


class Trainer:
    """Trains one model on one store of pairs until the run is over or interrupted."""

    def __init__(
        self,
        trained: TrainedModel,
        optimizer: torch.optim.Optimizer,
        store: PairStore,
        context: RunContext,
        hooks: Hooks,
    ) -> None:
        self.trained = trained
        self.model = trained.model
        self.config = trained.config.train
        self.optimizer = optimizer
        self.store = store
        self.processes, self.reporter = context.processes, context.reporter
        self.interrupted = context.interrupted
        self.hooks = hooks
        self.codec = trained.codec
        self.device = self.codec.device
        self.objective = hooks.objective or Objective(trained.model, self.config)
        self._shards = hooks.shards
        self._plan: tuple[int, BatchPlan] | None = None

    def run(self, progress: Progress) -> Progress:
        """Makes updates until the run is over; validates, saves and reports on the way."""
        meter = Meter(self.processes, self.device, self.objective.names, progress.unlogged)
        if self._is_validation_due(progress):  # the interrupted run had put it off
            progress = self._validate(progress)
            if progress.validated < progress.step:  # it is put off again
                return progress
            progress = self._save(progress, meter)
        while not is_over(progress, self.config):
            began = time.perf_counter()
            update, progress = self._advance(progress)
            seconds = time.perf_counter() - began
            progress = replace(progress, seconds=progress.seconds + seconds)
            meter.add(update, seconds)
            self.reporter.step(progress.step)
            self.reporter.show_figures(partial(self._figures, progress, meter.peek))
            if progress.step % self.config.log_every == 0:
                self._log(progress, meter)
            is_due = not update.stop and self._is_validation_due(progress)
            if is_due:
                progress = self._validate(progress)
            # A run that is to stop saves at once; its validation is put off, since someone waits.
            stops = update.stop or (is_due and progress.validated < progress.step)
            if (
                stops
                or progress.step % self.config.save_every == 0
                or is_over(progress, self.config)
            ):
                progress = self._save(progress, meter)
            if stops:
                break
        return progress

    def update(self, progress: Progress, batches: Sequence[tuple[int, Batch]]) -> Update:
        """Makes one optimizer step on the mean loss per target token of all batches.

        `batches` are those of this process, on its device, each with its place in the update.
        """
        self.model.train()
        if self.config.freeze_backbone:
            self.model.backbone.eval()  # the frozen model works as in translation, without dropout
        local_tokens = sum(batch.target_tokens for _, batch in batches)
        tokens, stop = local_tokens, self.interrupted.signal != 0
        if self.processes.world_size > 1:
            tokens, stop = self._agree(local_tokens, stop)
        self.optimizer.zero_grad(set_to_none=True)
        sums, suspects = dict.fromkeys(self.objective.names, 0.0), []
        learn = self.objective.backward if self._shards is None else self._shards.backward
        for position, batch in batches:
            torch.manual_seed(_seed(self.config.seed, progress.step, position))
            parts = {name: float(x) for name, x in learn(batch, progress.step, tokens).items()}
            sums = {name: total + parts.get(name, 0.0) for name, total in sums.items()}
            if not all(math.isfinite(value) for value in parts.values()):
                suspects.append(position)
        if self.processes.world_size > 1 and self._shards is None:
            learners = (self.model, self.objective.judges)
            self.processes.sum_gradients(p for learner in learners for p in learner.parameters())
        norm = self._clip()
        if math.isfinite(norm):
            rate = learning_rate(self.config, progress.step)
            for group in self.optimizer.param_groups:
                group["lr"] = rate * group["factor"]
            self.optimizer.step()
        return Update(norm, tokens, sums, stop, tuple(suspects), local_tokens)

    def _agree(self, local_tokens: int, stop_requested: bool) -> tuple[int, bool]:
        """Sums the target tokens over all processes; True if any process was asked to stop."""
        tokens, stops = self.processes.all_reduce_sum(
            [float(local_tokens), float(stop_requested)], self.device
        )
        if stops and not stop_requested:  # another process got the signal
            self.interrupted.signal = signal.SIGTERM
        return int(tokens), stops > 0

    def _clip(self) -> float:
        """Clips the gradients of model and judges, each by its own norm.

        Returns the norm of the model, or the first one that is not finite.
        """
        norms = []
        for learner in (self.model, self.objective.judges):
            gradients = [p.grad for p in learner.parameters() if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            norm = norm if self._shards is None else whole_tensor(norm)
            if self.config.clip and torch.isfinite(norm):
                torch.nn.utils.clip_grads_with_norm_(learner.parameters(), self.config.clip, norm)
            norms.append(float(norm))
        return next((norm for norm in norms if not math.isfinite(norm)), norms[0])

    def _advance(self, progress: Progress) -> tuple[Update, Progress]:
        """Reads the batches of the next update and makes it."""
        plan = self._epoch_plan(progress.epoch)
        while progress.batch >= len(plan):  # settings were changed: there are fewer batches now
            progress = replace(progress, epoch=progress.epoch + 1, batch=0)
            plan = self._epoch_plan(progress.epoch)
        end = min(progress.batch + self.config.accumulate, len(plan))
        rows = [plan.indices(number) for number in range(progress.batch, end)]
        first = progress.batch
        progress = replace(progress, step=progress.step + 1, batch=end)
        update = self.update(progress, self._local_batches(rows, progress.epoch, first))
        progress = replace(
            progress,
            tokens=progress.tokens + update.tokens,
            skipped=0 if math.isfinite(update.norm) else progress.skipped + 1,
        )
        if progress.skipped:
            self._report_skipped(progress, update, rows)
        if end == len(plan):
            progress = replace(progress, epoch=progress.epoch + 1, batch=0)
        return update, progress

    def _local_batches(
        self, rows: Sequence[np.ndarray], epoch: int, first: int
    ) -> list[tuple[int, Batch]]:
        """Reads this process's share of an update, each batch with its place; it may be empty.

        `first` is the number of the update's first batch in the epoch.
        """
        batches = []
        dropout = self.trained.config.tokenizer.dropout
        for position in range(self.processes.rank, len(rows), self.processes.world_size):
            indices = rows[position]
            if dropout:
                sources, targets = self.store.sides
                pairs = [(sources[index], targets[index]) for index in indices.tolist()]
                seed = _seed(self.config.seed, epoch, first + position)
                pairs = self.codec.resample(pairs, dropout, seed)  # makes batches somewhat longer
                batch = self.codec.batch(pairs, indices)
            else:
                batch = self.codec.stored_batch(self.store, indices)
            batches.append((position, batch))
        return batches

    def _epoch_plan(self, epoch: int) -> BatchPlan:
        if self._plan is None or self._plan[0] != epoch:
            plan = plan_epoch(self.store, self.config.batch_tokens, self.config.seed, epoch)
            if self._shards is not None:  # processes that share a model need as many batches each
                even = len(plan) - len(plan) % self.processes.world_size
                plan = replace(plan, shuffle=plan.shuffle[:even])
            self._plan = (epoch, plan)
        return self._plan[1]

    def _is_validation_due(self, progress: Progress) -> bool:
        due = progress.step % self.config.validate_every == 0 or is_over(progress, self.config)
        return due and progress.validated < progress.step

    def _validate(self, progress: Progress) -> Progress:
        if self.hooks.validate is None:
            return replace(progress, validated=progress.step)
        self.model.eval()
        if self._shards is not None:
            self._shards.gather()
        validation = self.processes.broadcast(self._run_validation())
        if validation is None:  # a signal has arrived: the resumed run validates
            self.interrupted.signal = self.interrupted.signal or signal.SIGTERM
            return progress
        progress, is_best = after_validation(progress, validation, self.config)
        figures = {
            "loss": validation.loss,
            "bleu": validation.bleu,
            "best_step": progress.best_step,
        }
        self.reporter.metrics("valid", progress.step, figures)
        if is_best:
            self.hooks.save_best(progress)
        return progress

    def _run_validation(self) -> Validation | None:
        """Validates in the main process; None if a signal broke it off, and in other processes."""
        if self.hooks.validate is None or not self.processes.is_main:
            return None
        try:
            return self.hooks.validate()
        except PutOffError:
            return None

    def _save(self, progress: Progress, meter: Meter) -> Progress:
        """Saves a checkpoint with the sums of the log line that is still to come."""
        progress = replace(progress, unlogged=meter.unlogged())
        self.hooks.save(progress)
        return progress

    def _log(self, progress: Progress, meter: Meter) -> None:
        self.reporter.metrics("train", progress.step, self._figures(progress, meter.figures))

    def _figures(
        self, progress: Progress, means: Callable[[], dict[str, float | int | None]]
    ) -> dict[str, float | int | None]:
        rate = learning_rate(self.config, progress.step)
        return means() | {"rate": rate, "epoch": progress.epoch}

    def _report_skipped(self, progress: Progress, update: Update, rows: list[np.ndarray]) -> None:
        """Names the pairs whose loss is not finite, or all of them if every loss is finite."""
        flags = self.processes.all_reduce_sum(
            [float(k in update.suspects) for k in range(len(rows))], self.device
        )
        named = [row for row, flag in zip(rows, flags, strict=True) if flag] or rows
        places = [self.store.where(int(index)) for row in named for index in row]
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        message = (
            f"step {progress.step}: the gradient is not finite; skipped the pairs at "
            f"{', '.join(places[:_SHOWN])}{more}"
        )
        logger.warning(message)
        if progress.skipped >= _MOST_SKIPPED:
            raise UntoldError(
                f"{message}; {progress.skipped} such updates in a row: look at these lines, or "
                "resume with a lower train.learning_rate or train.clip and --allow-changed"
            )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
