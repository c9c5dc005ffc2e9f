"""Contenders timed side by side, peak memory, and files of results with all that they depend on.

Other work on a machine slows down whatever runs at that moment. So contenders take turns, job by
job (untold.lab.speed), and only ratios within one round are reported, with their
spread.
"""

import importlib.metadata
import json
import multiprocessing
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from untold.lab.speed import Contender, take_turns

RESULTS = Path(__file__).parent / "results"  # what `make bench` keeps
LAYOUT = 1  # of the files there
PACKAGES = ("torch", "numpy", "ctranslate2", "transformers", "torchao", "untold")

# The processor's time is that of all threads of this process, and of no other process.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Race:
    """Seconds of each contender in each round; the first contender is ours."""

    title: str
    seconds: Mapping[str, Sequence[float]]
    work: Mapping[str, float]  # what all jobs together amount to, by unit: {"tokens": 4711}

    def ratios(self, name: str) -> list[float]:
        """How many times as long as ours the contender took, round by round."""
        ours = next(iter(self.seconds.values()))
        return [theirs / own for theirs, own in zip(self.seconds[name], ours, strict=True)]

    def median(self, name: str) -> float:
        """The median seconds of a contender."""
        return statistics.median(self.seconds[name])

    def median_ratio(self, name: str) -> float:
        """How many times as long as ours the contender took: the median of the rounds."""
        return statistics.median(self.ratios(name))

    def table(self, *, relative: bool = False) -> str:
        """One line for each contender: speeds, then how much faster we are: median (min to max).

        `relative`: instead, its speed as a share of the first contender's.
        """
        units = "".join(f"{unit + '/s':>14}" for unit in self.work)
        heading = "speed of the first" if relative else "the first one is faster"
        lines = [self.title, f"{'':<34}{units}   {heading}"]
        for number, name in enumerate(self.seconds):
            speeds = "".join(f"{work / self.median(name):>14,.1f}" for work in self.work.values())
            spread = self.spread(name, relative=relative) if number else ""
            lines.append(f"{name:<34}{speeds}   {spread}".rstrip())
        return "\n".join(lines)

    def spread(self, name: str, *, relative: bool = False) -> str:
        """Such as `1.49 x (1.47 to 1.50)`: the median of the rounds, the least and the most."""
        ratios = [1 / ratio if relative else ratio for ratio in self.ratios(name)]
        return f"{statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured, and the median ratios."""
        names = list(self.seconds)[1:]
        return {
            "title": self.title,
            "seconds": {name: _rounded(seconds) for name, seconds in self.seconds.items()},
            "work": dict(self.work),
            "ratios": {name: _rounded(self.ratios(name)) for name in names},
            "median_ratios": {name: self.median_ratio(name) for name in names},
        }


def _rounded(values: Sequence[float]) -> list[float]:
    """Keeps six digits: more than any clock is good for."""
    return [float(f"{value:.6g}") for value in values]


@dataclass(frozen=True)
class Table:
    """Figures that are no race, such as peaks of memory."""

    title: str
    columns: list[str]
    rows: list[list[Any]]  # the first column names a row

    def text(self) -> str:
        """One line for each row, for a terminal."""
        widths = [
            max(len(column), *(len(format_cell(row[number])) for row in self.rows))
            for number, column in enumerate(self.columns)
        ]
        lines = [self.title]
        for row in [self.columns, *self.rows]:
            first, *rest = [format_cell(value) for value in row]
            cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return "\n".join(lines)


def format_cell(value: Any) -> str:
    """Words a value of a table: three digits are enough."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def add_race_options(parser: ArgumentParser, *, rounds: int = 7) -> None:
    """The options of whatever is timed in this process."""
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: on a busy machine, one thread"
    )
    parser.add_argument("--json", type=Path, help="also write the measurements here")


def run_race(
    title: str,
    contenders: Mapping[str, Contender],
    jobs: Sequence[Any],
    work: Mapping[str, float],
    options: Namespace,
) -> Race:
    """Every contender does every job once a round, after one job to warm up."""
    for run in contenders.values():
        run(jobs[0])
    seconds = take_turns(contenders, jobs, options.rounds, CLOCKS[options.clock])
    return Race(title, seconds, work)


class WorkerFailed(Exception):
    """A process ended without an answer; the message is its last line."""


class Worker:
    """A process that answers a line of standard input with a line of JSON; a context manager."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, dict(environment)

    def __enter__(self) -> "Worker":
        with ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env=self._environment,
            )
            stack.callback(self._process.communicate)
            stack.callback(self._process.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def send(self, line: str = "") -> None:
        """Asks for work; `receive` waits for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: `receive` says why

    def receive(self) -> Any:
        """Waits for an answer."""
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        reasons = [line for line in self._errors.read().split("\n") if line.strip()]
        raise WorkerFailed(reasons[-1].strip() if reasons else "it ended without a word")

    def ask(self, line: str = "") -> Any:
        """Sends a line and waits for the answer."""
        self.send(line)
        return self.receive()


@dataclass(frozen=True)
class Peak:
    """What one call took; `mapped_mb`, the peak of file pages, the system can take back."""

    seconds: float
    mb: float
    mapped_mb: float
    result: Any


def measure_peak(function: Callable[..., Any], *arguments: Any) -> Peak:
    """Calls a function of a module in a fresh process and returns that process's peak memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure_here, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        sys.exit(f"{function.__name__} failed")  # the child has printed why
    finally:
        process.join()


def _measure_here(sender: Connection, function: Callable[..., Any], arguments: Any) -> None:
    done, mapped = threading.Event(), [_memory_mb("RssFile")]

    def watch() -> None:
        while not done.wait(0.1):
            mapped.append(_memory_mb("RssFile"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    try:
        result = function(*arguments)
    finally:
        seconds = time.perf_counter() - began
        done.set()
        watcher.join()
    sender.send(Peak(seconds, _memory_mb("VmHWM"), max(mapped), result))


def _memory_mb(field: str) -> float:
    """Megabytes from /proc; where the field is lacking only the peak is known."""
    match = re.search(rf"^{field}:\s+(\d+) kB", _read(Path("/proc/self/status")), re.MULTILINE)
    if match:
        return int(match[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return peak if field == "VmHWM" else 0.0


def write_json(
    path: Path, races: Sequence[Race], facts: Mapping[str, Any], tables: Sequence[Table] = ()
) -> None:
    """Keeps what was measured, and what it depends on; `facts` are the options of the run.

    Files in benchmarks/results/ are drawn and tabled by benchmarks/page.py.
    """
    report = {
        "layout": LAYOUT,
        "conditions": describe_conditions(),
        "facts": {name: _portable(value) for name, value in facts.items() if name != "json"},
        "races": [race.as_json() for race in races],
        "tables": [asdict(table) for table in tables],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Results:
    """A file that `write_json` wrote."""

    races: list[Race]
    tables: list[Table]
    facts: dict[str, Any]  # the options of the run
    conditions: dict[str, Any]  # machine, versions, load and date


def read_json(path: Path) -> Results:
    """Reads what `write_json` wrote."""
    report = json.loads(path.read_bytes())
    if report.get("layout") != LAYOUT:
        raise SystemExit(f"{path}: layout {report.get('layout')}, not {LAYOUT}: measure it anew")
    races = [Race(race["title"], race["seconds"], race["work"]) for race in report["races"]]
    tables = [Table(**table) for table in report["tables"]]
    return Results(races, tables, report["facts"], report["conditions"])


def _portable(value: Any) -> Any:
    """Keeps the name of a file, but not where it lies on this machine."""
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith("/")):
        return Path(value).name
    return value


def describe_conditions(root: Path = Path("/")) -> dict[str, Any]:
    """Collects everything that another machine, another day or another version may change."""
    cpu = root / "sys/devices/system/cpu/cpu0"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": _processor(root),
            "cores": os.cpu_count(),
            "usable_cores": sorted(os.sched_getaffinity(0)),
            "caches": _caches(cpu / "cache"),
            "governor": _read(cpu / "cpufreq/scaling_governor") or "not readable",
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "system": platform.system(),
        },
        "versions": {"python": platform.python_version(), **_versions(), "commit": _commit()},
        "threads": torch.get_num_threads(),
        "malloc": {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")},
        "large_pages": os.environ.get("THP_MEM_ALLOC_ENABLE", "0"),
        "load": {"average": list(os.getloadavg()), "other_processes": count_others()},
    }


def count_others(root: Path = Path("/")) -> int:
    """Counts what runs or waits for a processor beside this process: the median of five readings.

    The load average would be a minute late.
    """
    readings = []
    for number in range(5):
        if number:
            time.sleep(0.005)
        fields = _read(root / "proc/loadavg").split()  # such as 0.58 0.79 0.56 3/89 10054
        running = fields[3].partition("/")[0] if len(fields) > 3 else "1"
        tasks = (_read(stat) for stat in (root / "proc/self/task").glob("*/stat"))
        ours = sum(task.rpartition(")")[2].split()[:1] == ["R"] for task in tasks)
        readings.append(max(int(running) - max(ours, 1), 0))  # this very thread runs
    return int(statistics.median(readings))


def _processor(root: Path) -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()


def _caches(directory: Path) -> dict[str, str]:
    """Reads such as {"L1 data": "32K", "L2 unified": "1024K"}."""
    caches = {}
    for index in sorted(directory.glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level and size:
            caches[f"L{level} {kind.lower()}"] = size
    return caches


def _versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # such as CTranslate2, which only the benchmarks need
    return versions


def _commit() -> str:
    """Names the commit; a plus means that the sources had changed since."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return "not a checkout"
    return f"{commit}+" if _git("status", "--porcelain", "src") else commit


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    try:
        run = subprocess.run(command, cwd=RESULTS.parents[1], capture_output=True, text=True)
    except OSError:  # git is not installed
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
