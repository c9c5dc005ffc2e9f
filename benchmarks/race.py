"""Contenders timed side by side, job by job: see untold.evaluation.speed_race.

Only ratios within one round are reported, with their spread.
"""

import json
import platform
import statistics
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from untold.evaluation.speed_race import Contender, take_turns

__all__ = ["CLOCKS", "Contender", "Race", "run_race", "write_json"]

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
            "seconds": {name: list(seconds) for name, seconds in self.seconds.items()},
            "work": dict(self.work),
            "ratios": {name: self.ratios(name) for name in names},
            "median_ratios": {name: statistics.median(self.ratios(name)) for name in names},
        }


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


def write_json(path: Path, races: Sequence[Race], facts: Mapping[str, Any]) -> None:
    """The races and what they depend on."""
    machine = {
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    report = {"facts": machine | dict(facts), "races": [race.as_json() for race in races]}
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
