"""The training loop: updates that depend on (seed, step) and the weights alone.

Random numbers are drawn from a generator seeded by (seed, step, batch of the update), never carried
over: so a resumed run repeats an uninterrupted one bit for bit, and two processes that share an
update drop out the same values as one process that makes it alone.
"""

import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from untold.corpus.batching import Batch, BatchPlan, Ids, PairStore, plan_epoch
from untold.errors import UntoldError
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.interruption import Interrupted
from untold.training.learning_rate_schedule import learning_rate
from untold.training.losses.objective import Goal, objective, parts_of
from untold.training.meter import Meter, Update
from untold.training.progress import Progress, Validation, after_validation, is_over
from untold.training.reporter import Reporter

__all__ = ["Hooks", "RunContext", "Trainer", "make_optimizer"]

_SHOWN = 8  # places named in one message


def _nothing(_: Progress | int) -> None:
    """The hook of a process that writes nothing."""


@dataclass(frozen=True)
class Hooks:
    """What a run does between its updates; `validate` is called in the first process alone.

    `goal` is what the updates minimise, if it is not the plain objective.
    """

    validate: Callable[[], Validation] | None = None
    save: Callable[[Progress], None] = _nothing
    save_best: Callable[[Progress], None] = _nothing
    goal: Goal | None = None
    after_update: Callable[[int], None] = _nothing


@dataclass(frozen=True)
class RunContext:
    """What surrounds a run: its processes, whom it talks to, and whether it is to stop."""

    world: ProcessGroup
    reporter: Reporter
    interrupted: Interrupted


def make_optimizer(trained: TrainedModel, goal: Goal | None = None) -> torch.optim.Optimizer:
    """Adam, or AdamW where weights decay; fused, which is the fast form on every device.

    A goal's judges have a group of their own, which names them: they are saved with the optimizer.
    """
    config = trained.config.train
    kind = torch.optim.AdamW if config.weight_decay else torch.optim.Adam
    groups: dict[float, list[torch.nn.Parameter]] = {}
    for name, parameter in trained.model.named_parameters():
        if parameter.requires_grad:
            factor = config.separator_rate if name.startswith("past_future.") else 1.0
            groups.setdefault(factor, []).append(parameter)
    learners: list[dict[str, Any]] = [
        {"params": parameters, "factor": factor} for factor, parameters in groups.items()
    ]
    if judges := {} if goal is None else dict(goal.judges.named_parameters()):
        group = {"params": list(judges.values()), "judges": list(judges)}
        learners.append(group | {"factor": config.sequence.judge_rate})
    return kind(
        learners,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


class Trainer:
    """Trains one model on one store of pairs; `run` returns when it is over or interrupted."""

    def __init__(
        self,
        trained: TrainedModel,
        optimizer: torch.optim.Optimizer,
        store: PairStore,
        setting: RunContext,
        hooks: Hooks,
    ) -> None:
        self.trained = trained
        self.model = trained.model
        self.config = trained.config.train
        self.optimizer = optimizer
        self.store = store
        self.world, self.reporter = setting.world, setting.reporter
        self.interrupted = setting.interrupted
        self.hooks = hooks
        self.device = next(trained.model.parameters()).device
        self.names = parts_of(trained.model, self.config)
        self.learners: list[torch.nn.Module] = [trained.model]
        if hooks.goal is not None:
            self.names = hooks.goal.names
            self.learners.append(hooks.goal.judges)
        self._plan: tuple[int, BatchPlan] | None = None

    def run(self, progress: Progress) -> Progress:
        """Update until the run is over; validate, save and report on the way."""
        if self._is_validation_due(progress):  # put off when the run was interrupted
            progress = self._validate(progress)
            self.hooks.save(progress)
        meter = Meter(self.world, self.device, self.names)
        while not is_over(progress, self.config):
            began = time.perf_counter()
            update, progress = self._advance(progress)
            seconds = time.perf_counter() - began
            progress = replace(progress, seconds=progress.seconds + seconds)
            meter.add(update, seconds)
            self.reporter.step(progress.step)
            self.hooks.after_update(progress.step)
            if progress.step % self.config.log_every == 0:
                self._log(progress, meter)
            if update.stop:  # saved at once: who asks a run to stop does not wait for a validation
                self.hooks.save(progress)
                return progress
            if self._is_validation_due(progress):
                progress = self._validate(progress)
            if progress.step % self.config.save_every == 0 or is_over(progress, self.config):
                self.hooks.save(progress)
        return progress

    def _advance(self, progress: Progress) -> tuple[Update, Progress]:
        progress, plan = self._place(progress)
        numbers = range(progress.batch, min(progress.batch + self.config.accumulate, len(plan)))
        progress = replace(progress, step=progress.step + 1)
        update = self._update(progress, self._own_batches(plan, numbers, progress.epoch))
        progress = replace(
            progress,
            batch=numbers.stop,
            tokens=progress.tokens + update.tokens,
            skipped=0 if update.is_finite else progress.skipped + 1,
        )
        if not update.is_finite:
            self._note_skipped(progress, update, [plan.indices(number) for number in numbers])
        if numbers.stop == len(plan):
            progress = replace(progress, epoch=progress.epoch + 1, batch=0)
        return update, progress

    def _place(self, progress: Progress) -> tuple[Progress, BatchPlan]:
        """The epoch to read from, and its plan."""
        plan = self._epoch_plan(progress.epoch)
        if progress.batch < len(plan):
            return progress, plan
        # The epoch has become shorter since the checkpoint: a resumed run was allowed to change.
        progress = replace(progress, epoch=progress.epoch + 1, batch=0)
        return progress, self._epoch_plan(progress.epoch)

    def _update(self, progress: Progress, batches: list[tuple[int, Batch]]) -> Update:
        """One optimizer step on the mean loss per target token of the whole effective batch."""
        self.model.train()
        if self.config.freeze_backbone:
            self.model.backbone.eval()  # it is observed as it translates, without dropout
        own, told = sum(batch.target_tokens for _, batch in batches), self.interrupted.signal != 0
        tokens, stop = self.world.total([float(own), float(told)], self.device)
        if stop and not told:  # another process was
            self.interrupted.signal = signal.SIGTERM
        self.optimizer.zero_grad(set_to_none=True)
        sums, suspects = dict.fromkeys(self.names, 0.0), []
        for position, batch in batches:
            parts = self._backward(batch, tokens, progress.step, position)
            sums = {name: sums[name] + parts.get(name, 0.0) for name in self.names}
            if not all(math.isfinite(value) for value in parts.values()):
                suspects.append(position)
        learning = (p for each in self.learners for p in each.parameters() if p.requires_grad)
        self.world.all_reduce_gradients(learning)
        norm = self._clip()
        if math.isfinite(norm):
            for group in self.optimizer.param_groups:
                rate = learning_rate(self.config, progress.step, progress.reductions)
                group["lr"] = rate * group["factor"]
            self.optimizer.step()
        return Update(norm, int(tokens), sums, stop > 0, tuple(suspects))

    def _backward(self, batch: Batch, tokens: float, step: int, position: int) -> dict[str, float]:
        """Add one batch's share of the gradient; returns the figures of its losses."""
        torch.manual_seed(_seed(self.config.seed, step, position))
        bf16 = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            minimised = self.hooks.goal or objective
            losses = minimised(self.model, batch.to(self.device), self.config, step)
        if losses.total.requires_grad:  # nothing learns before a frozen run's losses begin
            (losses.total / tokens).backward()
        return {name: float(value) for name, value in losses.parts.items()}

    def _clip(self) -> float:
        """The model's norm, or one that is not finite; each learner is clipped by its own."""
        norms = []
        for learner in self.learners:
            gradients = [p.grad for p in learner.parameters() if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            if self.config.clip and torch.isfinite(norm):
                torch.nn.utils.clip_grads_with_norm_(learner.parameters(), self.config.clip, norm)
            norms.append(float(norm))
        return next((norm for norm in norms if not math.isfinite(norm)), norms[0])

    def _own_batches(self, plan: BatchPlan, numbers: range, epoch: int) -> list[tuple[int, Batch]]:
        """This process's share of an update: every size-th batch, with its place in the update."""
        batches = []
        for position in range(self.world.rank, len(numbers), self.world.size):
            pairs = plan.read(self.store, numbers[position])
            if self.trained.config.tokenizer.dropout:
                pairs = self._resample(pairs, _seed(self.config.seed, epoch, numbers[position]))
            batches.append((position, plan.batch(pairs, numbers[position])))
        return batches

    def _resample(self, pairs: list[tuple[Ids, Ids]], seed: int) -> list[tuple[Ids, Ids]]:
        """Cut the words of the pairs anew, with BPE-dropout; batches grow somewhat by it."""
        dropout, tokenizers = self.trained.config.tokenizer.dropout, self.trained.tokenizers
        sides = []
        for number, tokenizer in enumerate((tokenizers.source, tokenizers.target)):
            texts = [tokenizer.decode([int(i) for i in pair[number]]) for pair in pairs]
            sides.append(tokenizer.encode_sampled(texts, dropout, seed + number))
        return list(zip(*sides, strict=True))

    def _epoch_plan(self, epoch: int) -> BatchPlan:
        if self._plan is None or self._plan[0] != epoch:
            plan = plan_epoch(self.store, self.config.batch_tokens, self.config.seed, epoch)
            self._plan = (epoch, plan)
        return self._plan[1]

    def _is_validation_due(self, progress: Progress) -> bool:
        due = progress.step % self.config.validate_every == 0 or is_over(progress, self.config)
        return due and progress.validated < progress.step

    def _validate(self, progress: Progress) -> Progress:
        if self.hooks.validate is None:
            return replace(progress, validated=progress.step)
        self.model.eval()
        validation = self.world.share(self.hooks.validate() if self.world.is_main else None)
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

    def _log(self, progress: Progress, meter: Meter) -> None:
        rate = learning_rate(self.config, progress.step, progress.reductions)
        figures = meter.figures() | {"rate": rate, "epoch": progress.epoch}
        self.reporter.metrics("train", progress.step, figures)

    def _note_skipped(self, progress: Progress, update: Update, rows: list[np.ndarray]) -> None:
        """Name the pairs whose loss is not finite; all of the update's, if each loss is."""
        flags = self.world.total(
            [float(k in update.suspects) for k in range(len(rows))], self.device
        )
        named = [row for row, flag in zip(rows, flags, strict=True) if flag] or rows
        places = [self.store.where(int(index)) for row in named for index in row]
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        message = (
            f"step {progress.step}: the gradient is not finite; skipped the pairs at "
            f"{', '.join(places[:_SHOWN])}{more}"
        )
        self.reporter.say(message)
        if progress.skipped >= self.config.max_skipped:
            raise UntoldError(
                f"{message}; {progress.skipped} such updates in a row: look at these lines, or "
                "resume with a lower train.learning_rate or train.clip and --allow-changed"
            )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
