"""Reports a run: a bar on a terminal, plain lines elsewhere, metrics as JSONL always."""

import json
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console

from untold.durable import write_file, writing
from untold.feedback import Display, Task, active_display, is_decided
from untold.report.progress_display import ProgressBars, error_console

__all__ = ["NullReporter", "Reporter"]

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
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.close()


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
