"""Contenders timed side by side, job by job: see untold.lab.speed.

Only ratios within one round are reported, with their spread.
"""

import json
import statistics
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import describe_conditions
from untold.lab.speed import Contender, take_turns

__all__ = [
    "CLOCKS",
    "RESULTS",
    "Contender",
    "Race",
    "Results",
    "Table",
    "format_cell",
    "read_json",
    "run_race",
    "take_turns",
    "write_json",
]

RESULTS = Path(__file__).parent / "results"  # what `make bench` keeps
LAYOUT = 1  # of the files there

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
        heading = "speed of the first" if relative else "untold is faster"
        lines = [self.title, f"{'':<34}{units}   {heading}"]
        for number, (name, seconds) in enumerate(self.seconds.items()):
            middle = statistics.median(seconds)
            speeds = "".join(f"{work / middle:>14,.1f}" for work in self.work.values())
            lines.append(
                f"{name:<34}{speeds}   {self._spread(name, relative) if number else ''}".rstrip()
            )
        return "\n".join(lines)

    def _spread(self, name: str, relative: bool) -> str:
        ratios = [1 / ratio if relative else ratio for ratio in self.ratios(name)]
        middle = statistics.median(ratios)
        return f"{middle:.2f} x ({min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds)"

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
    """Figures that are no race, such as the share of a limit that each part of a model reaches."""

    title: str
    columns: list[str]
    rows: list[list[Any]]  # the first column names a row

    def text(self) -> str:
        """One line for each row, for a terminal."""
        widths = [
            max(len(each), *(len(format_cell(row[number])) for row in self.rows))
            for number, each in enumerate(self.columns)
        ]
        lines = [self.title]
        for row in [self.columns, *self.rows]:
            first, *rest = [format_cell(value) for value in row]
            cells = [each.rjust(width) for each, width in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return "\n".join(lines)


def format_cell(value: Any) -> str:
    """Words a value of a table: three digits are enough."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


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
    races = [Race(each["title"], each["seconds"], each["work"]) for each in report["races"]]
    tables = [Table(**each) for each in report["tables"]]
    return Results(races, tables, report["facts"], report["conditions"])


def _portable(value: Any) -> Any:
    """Keeps the name of a file, but not where it lies on this machine."""
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith("/")):
        return Path(value).name
    return value
