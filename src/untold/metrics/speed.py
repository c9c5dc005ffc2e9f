"""Compares the speeds of several contenders with that of a baseline.

Other work on the machine slows down whatever runs at that moment. Therefore the contenders
alternate job by job, in a rotating order, and speeds are compared within one round.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from untold.progress_bar import track

Contender = Callable[[Any], Any]  # does one job


@dataclass(frozen=True)
class Speed:
    """The speed of one contender in each round: work per second, and its ratio to the baseline."""

    rates: tuple[float, ...]
    ratios: tuple[float, ...]  # empty if the baseline did no work

    @property
    def rate(self) -> float:
        """The median rate of the rounds."""
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float | None:
        """The median ratio of the rounds."""
        return statistics.median(self.ratios) if self.ratios else None


def take_turns(
    contenders: Mapping[str, Contender],
    jobs: Sequence[Any],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Measures the seconds of each contender in each round; it does every job once a round."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in track(range(rounds), "measuring speeds", rounds):
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
    """Measures the speed of every contender; the first one is the baseline.

    A contender returns the amount of work of a job. All do one round before, to warm up.
    """
    work = {name: sum(run(job) for job in jobs) for name, run in contenders.items()}
    seconds = take_turns(contenders, jobs, rounds, clock)
    rates = {name: [work[name] / spent for spent in seconds[name]] for name in contenders}
    baseline = next(iter(rates.values()))
    return {
        name: Speed(tuple(own), tuple(a / b for a, b in zip(own, baseline, strict=True) if b))
        for name, own in rates.items()
    }
