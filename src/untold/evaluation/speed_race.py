"""Speeds as shares of a baseline's: contenders take each job in turn, so that noise hits all alike.

Other work on the machine slows whatever runs at that moment. Therefore contenders alternate job by
job, in a rotating order, and speeds are compared within one round, with their spread over rounds.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Contender", "Speed", "measure_speeds", "take_turns"]

Contender = Callable[[Any], Any]  # does a job


@dataclass(frozen=True)
class Speed:
    """Of one contender in each round: work a second, and as a share of the baseline's."""

    rates: tuple[float, ...]
    ratios: tuple[float, ...]  # none if the baseline got nothing done

    @property
    def rate(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float | None:
        """The median of the rounds."""
        return statistics.median(self.ratios) if self.ratios else None


def take_turns(
    contenders: Mapping[str, Contender],
    jobs: Sequence[Any],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each contender in each round, in which it does every job once."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        spent = dict.fromkeys(names, 0.0)
        for place, job in enumerate(jobs):
            turn = (number + place) % len(names)
            for name in names[turn:] + names[:turn]:
                began = clock()
                contenders[name](job)
                spent[name] += clock() - began
        for name in names:
            seconds[name].append(spent[name])
    return seconds


def measure_speeds(
    contenders: Mapping[str, Callable[[Any], float]],
    jobs: Sequence[Any],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Speed]:
    """Of every contender, each of which returns the work that a job came to; the first is the
    baseline. One round goes before, to warm up."""
    work = {name: sum(run(job) for job in jobs) for name, run in contenders.items()}
    seconds = take_turns(contenders, jobs, rounds, clock)
    rates = {name: [work[name] / spent for spent in seconds[name]] for name in contenders}
    baseline = next(iter(rates.values()))
    return {
        name: Speed(tuple(own), tuple(a / b for a, b in zip(own, baseline, strict=True) if b))
        for name, own in rates.items()
    }
