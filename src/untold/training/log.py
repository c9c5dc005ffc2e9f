"""The result of one update, and the sums of such results between two log lines.

Reports a run: a bar on a terminal, plain lines elsewhere, metrics as JSONL always.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import torch
from rich.console import Console

from untold.files import write_file, writing
from untold.progress_bar import (
    Display,
    ProgressBars,
    Task,
    active_display,
    error_console,
    is_decided,
)
from untold.training.distributed import ProcessGroup
from untold.training.progress import UnloggedSums


@dataclass(frozen=True)
class Update:
    """The result of an update. `norm`, `tokens` and `stop` are those of all processes together."""

    norm: float  # of the gradient, before it is clipped
    tokens: int
    parts: dict[str, float]
    stop: bool
    suspects: tuple[int, ...] = ()  # the batches of the update whose loss is not finite
    own_tokens: int = 0  # of this process: those that `parts` are sums over


class Meter:
    """Adds up figures since the last log line; skipped updates count only as time and tokens."""

    def __init__(
        self,
        processes: ProcessGroup,
        device: torch.device,
        names: tuple[str, ...],
        unlogged: UnloggedSums | None = None,
    ) -> None:
        """`names` are the columns of the objective, `unlogged` the sums of a stopped run."""
        self._processes, self._device, self._names = processes, device, names
        self._clear()
        if unlogged is not None and unlogged.parts.keys() == set(names):
            self._restore(unlogged)  # other columns have no sums over these updates

    def add(self, update: Update, seconds: float) -> None:
        """Counts one update."""
        self._all_tokens += update.tokens
        self._seconds += seconds
        self._norm = update.norm
        if math.isfinite(update.norm):
            self._tokens += update.tokens
            self._own_tokens += update.own_tokens
            for name, value in update.parts.items():
                self._parts[name] += value

    def figures(self) -> dict[str, float | int | None]:
        """Returns the means per target token, and the speed, since the last call."""
        sums = self._processes.all_reduce_sum(
            [self._parts[name] for name in self._names], self._device
        )
        figures = self._means(sums)
        self._clear()
        return figures

    def peek(self) -> dict[str, float | int | None]:
        """Returns the figures so far without a new beginning, as this process alone knows them."""
        scale = self._tokens / self._own_tokens if self._own_tokens else 0.0
        return self._means([self._parts[name] * scale for name in self._names])

    def _means(self, sums: list[float]) -> dict[str, float | int | None]:
        figures: dict[str, float | int | None] = {
            name: value / self._tokens if self._tokens else None
            for name, value in zip(self._names, sums, strict=True)
        }
        speed = round(self._all_tokens / self._seconds)
        return figures | {"norm": self._norm, "tokens_per_second": speed}

    def unlogged(self) -> UnloggedSums:
        """Returns the sums since the last log line; all processes must call it together."""
        size, rank = self._processes.world_size, self._processes.rank
        own = [self._parts[name] if k == rank else 0.0 for name in self._names for k in range(size)]
        sums = self._processes.all_reduce_sum(own, self._device)
        parts = {name: sums[k * size : (k + 1) * size] for k, name in enumerate(self._names)}
        return UnloggedSums(self._tokens, self._all_tokens, self._seconds, parts)

    def _restore(self, unlogged: UnloggedSums) -> None:
        """Takes over the sums of this process, and of others if there are fewer processes now."""
        self._tokens, self._all_tokens = unlogged.tokens, unlogged.all_tokens
        self._seconds = unlogged.seconds
        self._own_tokens = self._tokens // self._processes.world_size
        for name, sums in unlogged.parts.items():
            self._parts[name] = sum(sums[self._processes.rank :: self._processes.world_size])

    def _clear(self) -> None:
        self._tokens, self._all_tokens, self._seconds, self._norm = 0, 0, 0.0, 0.0
        self._own_tokens = 0
        self._parts = dict.fromkeys(self._names, 0.0)


METRICS = "metrics.jsonl"
Figures = dict[str, float | int | None]


class Reporter:
    """Writes to the console, to metrics.jsonl and, if it is installed, to TensorBoard."""

    def __init__(self, run: Path, steps: int, console: Console | None = None) -> None:
        self.run = run
        self.console = console or error_console()
        self._steps = steps
        self._display = _choose_display(console)
        self._task = Task(None, "training", steps, 0)
        self._board: Any = None
        self._file: TextIO | None = None
        self._closing = ExitStack()

    def begin(self, step: int) -> None:
        """Starts at `step` and drops the metrics of later steps, which the run will make again."""
        _cut_metrics(self.run / METRICS, step)
        file = open(self.run / METRICS, "a", encoding="utf-8")  # noqa: SIM115 (see __exit__)
        self._file = self._closing.enter_context(file)
        self._board = _tensorboard(self.run, step)
        if self._board is not None:
            self._closing.callback(self._board.close)
        self._task = Task(self._display, "training", self._steps, step)
        self._closing.callback(self._task.end)

    def say(self, line: str) -> None:
        """Prints one line."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def step(self, step: int) -> None:
        """Notes that an update was made; the bar moves when its figures are shown."""
        self._task.done = step

    def show_figures(self, compute: Callable[[], Figures]) -> None:
        """Shows figures on the bar, if it is time; metrics.jsonl does not get them."""
        if self._task.is_shown_now():
            self._task.note = _line(compute())
            self._task.show()

    def metrics(self, kind: str, step: int, figures: Figures) -> None:
        """Writes figures of training or validation to metrics.jsonl and prints them.

        JSON has no NaN and no infinity: they are written as null.
        """
        shown = _line(figures)
        figures = {name: _finite(value) for name, value in figures.items()}
        record = {"kind": kind, "step": step, "time": round(time.time(), 3), **figures}
        if self._file is not None:
            with writing(self.run / METRICS):
                self._file.write(json.dumps(record, allow_nan=False) + "\n")
                self._file.flush()
        if self._board is not None:
            for name, value in figures.items():
                if value is not None:
                    self._board.add_scalar(f"{kind}/{name}", value, step)
        if kind == "train" and isinstance(self._display, ProgressBars):
            self._task.done, self._task.note = step, shown
            self._task.show()
        else:
            left = "" if kind != "train" else f"/{self._steps}"
            self.say(f"{kind} step {step}{left}  {shown}")

    def __enter__(self) -> "Reporter":
        """Shows what untold logs, until the run is over."""
        self._closing.enter_context(_shown(self.say))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.close()


class _Lines(logging.Handler):
    """Hands every message on as a line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


@contextmanager
def _shown(say: Callable[[str], None]) -> Iterator[None]:
    """Hands what untold logs to `say`, within the block."""
    logger, handler = logging.getLogger("untold"), _Lines(say)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class NullReporter(Reporter):
    """Prints and writes nothing; every process but the main one has this reporter."""

    def begin(self, step: int) -> None:
        """Opens nothing."""

    def say(self, line: str) -> None:
        """Prints nothing."""

    def show_figures(self, compute: Callable[[], Figures]) -> None:
        """Shows nothing."""

    def metrics(self, kind: str, step: int, figures: Figures) -> None:
        """Writes nothing."""


def _choose_display(console: Console | None) -> Display | None:
    """Takes the active display; without one, training draws bars on a terminal by itself."""
    if console is None and is_decided():
        return active_display()
    console = console or error_console()
    return ProgressBars(console) if console.is_terminal else None


def _line(figures: Figures) -> str:
    return "  ".join(f"{name} {_short(value)}" for name, value in figures.items())


def _short(value: float | int | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _finite(value: float | int | None) -> float | int | None:
    return value if value is not None and math.isfinite(value) else None


def _cut_metrics(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = []
    for line in path.read_bytes().split(b"\n"):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + b"\n")
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # a line that a crash cut short
    write_file(path, b"".join(kept))


def _tensorboard(run: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)
