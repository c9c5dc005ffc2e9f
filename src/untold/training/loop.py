"""The training loop: updates that depend on (seed, step) and the weights alone.

Random numbers are drawn from a generator seeded by (seed, step, batch of the update), never carried
over: so a resumed run repeats an uninterrupted one bit for bit, and two processes that share an
update drop out the same values as one process that makes it alone.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

import numpy as np
import torch

from untold.corpus.batches import Batch, BatchPlan, Ids, PairStore, plan_epoch
from untold.errors import UntoldError
from untold.models.files import TrainedModel
from untold.training.checkpoints import Checkpoints
from untold.training.objective import PARTS, objective
from untold.training.progress import Progress, Validation, after_validation, is_over
from untold.training.reporter import Reporter
from untold.training.schedules import learning_rate
from untold.training.world import World

__all__ = ["Interrupted", "Trainer", "make_optimizer", "stop_signals"]


@dataclass
class Interrupted:
    """Set by the first SIGTERM or SIGINT: the signal's number, else zero."""

    signal: int = 0


@contextmanager
def stop_signals() -> Iterator[Interrupted]:
    """Note the first signal, so that the run can end after a whole update; let a second one kill."""
    interrupted = Interrupted()

    def note(number: int, _frame: FrameType | None) -> None:
        interrupted.signal = number
        for kind, handler in before.items():
            signal.signal(kind, handler)

    before = {kind: signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT)}
    for kind in before:
        signal.signal(kind, note)
    try:
        yield interrupted
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def make_optimizer(trained: TrainedModel) -> torch.optim.Optimizer:
    """Adam, or AdamW where weights decay; fused, which is the fast form on every device."""
    config = trained.config.train
    kind = torch.optim.AdamW if config.weight_decay else torch.optim.Adam
    return kind(
        [p for p in trained.model.parameters() if p.requires_grad],
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


@dataclass(frozen=True)
class _Update:
    """What one update did, summed over all processes."""

    norm: float
    tokens: int
    parts: dict[str, float]
    stop: bool


class Trainer:
    """Trains one model on one store of pairs; `run` returns when it is over or interrupted."""

    def __init__(
        self,
        trained: TrainedModel,
        optimizer: torch.optim.Optimizer,
        store: PairStore,
        world: World,
        reporter: Reporter,
    ) -> None:
        self.trained = trained
        self.model = trained.model
        self.config = trained.config.train
        self.optimizer = optimizer
        self.store = store
        self.world = world
        self.reporter = reporter
        self.device = next(trained.model.parameters()).device
        self.validate: Callable[[], Validation] | None = None
        self.save: Callable[[Progress], None] = lambda progress: None
        self.save_best: Callable[[Progress], None] = lambda progress: None
        self._plan: tuple[int, BatchPlan] | None = None

    def run(self, progress: Progress, interrupted: Interrupted) -> Progress:
        """Update until the run is over; validate, save and report on the way."""
        meter = _Meter(self.world, self.device)
        while not is_over(progress, self.config):
            began = time.perf_counter()
            update, progress = self._advance(progress, interrupted)
            seconds = time.perf_counter() - began
            progress = replace(
                progress, tokens=progress.tokens + update.tokens, seconds=progress.seconds + seconds
            )
            meter.add(update, seconds)
            self.reporter.step(progress.step)
            if progress.step % self.config.log_every == 0:
                self._log(progress, meter)
            if progress.step % self.config.validate_every == 0:
                progress = self._validate(progress)
            if progress.step % self.config.save_every == 0 or update.stop:
                self.save(progress)
            if update.stop:
                return progress
        if progress.validated < progress.step:
            progress = self._validate(progress)
        self.save(progress)
        return progress

    def _advance(self, progress: Progress, interrupted: Interrupted) -> tuple[_Update, Progress]:
        plan = self._epoch_plan(progress.epoch)
        last = min(progress.batch + self.config.accumulate, len(plan))
        step = progress.step + 1
        batches = list(self._own_batches(plan, range(progress.batch, last), progress.epoch))
        update = self._update(step, batches, progress, interrupted)
        finite = bool(np.isfinite(update.norm))
        progress = replace(progress, step=step, batch=last, skipped=0 if finite else progress.skipped + 1)
        if not finite:
            self._note_skipped(progress, [batch for _, batch in batches])
        if last == len(plan):
            progress = replace(progress, epoch=progress.epoch + 1, batch=0)
        return update, progress

    def _update(
        self, step: int, batches: list[tuple[int, Batch]], progress: Progress, interrupted: Interrupted
    ) -> _Update:
        """One optimizer step on the mean loss per target token of the whole effective batch."""
        self.model.train()
        own = sum(batch.target_tokens for _, batch in batches)
        tokens, stop = self.world.total([own, float(interrupted.signal != 0)], self.device)
        self.optimizer.zero_grad(set_to_none=True)
        parts = dict.fromkeys(PARTS, 0.0)
        for position, batch in batches:
            torch.manual_seed(_seed(self.config.seed, step, position))
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"
            ):
                losses = objective(self.model, batch.to(self.device), self.config)
            (losses.total / tokens).backward()
            for name, value in losses.parts.items():
                parts[name] += float(value)
        self.world.sum_gradients(p for p in self.model.parameters() if p.requires_grad)
        norm = self._clip()
        if np.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.config, step, progress.reductions)
            self.optimizer.step()
        return _Update(norm, int(tokens), parts, stop > 0)

    def _clip(self) -> float:
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.config.clip and torch.isfinite(norm):
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.clip, norm)
        return float(norm)

    def _own_batches(
        self, plan: BatchPlan, numbers: range, epoch: int
    ) -> Iterator[tuple[int, Batch]]:
        """This process's share of an update: every size-th batch, with its place in the update."""
        for position in range(self.world.rank, len(numbers), self.world.size):
            pairs = plan.read(self.store, numbers[position])
            if self.trained.config.tokenizer.dropout:
                pairs = self._resample(pairs, _seed(self.config.seed, epoch, numbers[position]))
            yield position, plan.batch(pairs, numbers[position])

    def _resample(self, pairs: list[tuple[Ids, Ids]], seed: int) -> list[tuple[Ids, Ids]]:
        """Cut the words of the pairs anew, with BPE-dropout."""
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

    def _validate(self, progress: Progress) -> Progress:
        if self.validate is None:
            return replace(progress, validated=progress.step)
        self.model.eval()
        validation = self.world.share(self.validate() if self.world.is_first else None)
        progress, is_best = after_validation(progress, validation, self.config)
        figures = {"loss": validation.loss, "bleu": validation.bleu, "best_step": progress.best_step}
        self.reporter.metrics("valid", progress.step, figures)
        if is_best:
            self.save_best(progress)
        return progress

    def _log(self, progress: Progress, meter: "_Meter") -> None:
        rate = learning_rate(self.config, progress.step, progress.reductions)
        figures = meter.figures() | {"rate": rate, "epoch": progress.epoch}
        self.reporter.metrics("train", progress.step, figures)

    def _note_skipped(self, progress: Progress, batches: list[Batch]) -> None:
        places = [self.store.where(int(index)) for batch in batches for index in batch.indices]
        shown = ", ".join(places[:8]) + (f" and {len(places) - 8} more" if len(places) > 8 else "")
        message = f"step {progress.step}: the gradient is not finite; skipped the pairs at {shown}"
        self.reporter.say(message)
        if progress.skipped >= self.config.max_skipped:
            raise UntoldError(
                f"{message}; {progress.skipped} such updates in a row: look at these lines, lower "
                "train.learning_rate, or set train.clip"
            )


class _Meter:
    """Sums between two log lines."""

    def __init__(self, world: World, device: torch.device) -> None:
        self._world, self._device = world, device
        self._clear()

    def add(self, update: _Update, seconds: float) -> None:
        self._tokens += update.tokens
        self._seconds += seconds
        self._norm = update.norm
        for name, value in update.parts.items():
            self._parts[name] += value

    def figures(self) -> dict[str, float | int | None]:
        """Means per target token, and the speed, since the last call."""
        sums = self._world.total([self._parts[name] for name in PARTS], self._device)
        figures: dict[str, float | int | None] = {
            name: value / self._tokens for name, value in zip(PARTS, sums, strict=True)
        }
        figures |= {"norm": self._norm, "tokens_per_second": round(self._tokens / self._seconds)}
        self._clear()
        return figures

    def _clear(self) -> None:
        self._tokens, self._seconds, self._norm = 0, 0.0, 0.0
        self._parts = dict.fromkeys(PARTS, 0.0)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
