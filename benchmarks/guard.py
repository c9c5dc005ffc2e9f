"""Fails when a kernel has become slower: `make bench-check`.

    python benchmarks/guard.py            # compare with benchmarks/results/guard.json
    python benchmarks/guard.py --record   # write that file anew: when a kernel changed on purpose

A kernel runs in turns with a reference of torch (kernels.py), many short rounds in the processor's
time on one thread. Its figure is the median over the rounds of reference / ours: how many times as
fast as the reference it is. A kernel whose figure lies more than 10 % below the recorded one is
measured once more, with twice the rounds, before the guard fails.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from kernels import KERNELS, Pair
from machine import describe_conditions
from race import RESULTS, Race, read_json, take_turns, write_json

RECORD = RESULTS / "guard.json"
TOLERANCE = 0.10  # of the recorded ratio
ROUNDS = 40
ROUND_SECONDS = 0.02  # of each side: some calls of a short kernel, one of a long one
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
OURS, REFERENCE = "ours", "reference"


@dataclass(frozen=True)
class Loss:
    """A kernel that has lost speed against its reference."""

    kernel: str
    recorded: float
    measured: float

    def __str__(self) -> str:
        lost = 1 - self.measured / self.recorded
        return (
            f"{self.kernel}: {self.measured:.2f} x the reference's speed, recorded "
            f"{self.recorded:.2f} x, {lost:.0%} lost (at most {TOLERANCE:.0%}): make the kernel as "
            "fast as before, or record anew with `make bench-record` and say why in the commit"
        )


def measure(
    name: str, make: Callable[[], Pair], rounds: int, clock: Callable[[], float] = time.process_time
) -> Race:
    """Runs a kernel in turns with its reference."""
    torch.manual_seed(1)
    own, reference = make()
    for call in (own, reference, own, reference):  # what torch sets up at first
        began = clock()
        call()
        spent = clock() - began
    calls = max(1, min(50, round(ROUND_SECONDS / max(spent, 1e-6))))
    contenders = {OURS: lambda _: own(), REFERENCE: lambda _: reference()}
    return Race(name, take_turns(contenders, range(calls), rounds, clock), {"calls": calls})


def find_losses(
    kernels: Mapping[str, Callable[[], Pair]],
    recorded: Mapping[str, float],
    measure_kernel: Callable[[str, Callable[[], Pair], int], Race] = measure,
) -> list[Loss]:
    """Measures every kernel, and those that seem slower a second time."""
    losses = []
    for name, make in kernels.items():
        if name not in recorded:
            print(f"{name}: not recorded yet: run `make bench-record`")
            continue
        least, measured = recorded[name] * (1 - TOLERANCE), 0.0
        for rounds in (ROUNDS, 2 * ROUNDS):
            measured = max(measured, measure_kernel(name, make, rounds).median_ratio(REFERENCE))
            if measured >= least:
                break
        else:
            losses.append(Loss(name, recorded[name], measured))
        print(f"{name:<40}{measured:>8.2f} x, recorded {recorded[name]:.2f} x", flush=True)
    return losses


def record(kernels: Mapping[str, Callable[[], Pair]], path: Path) -> None:
    """Writes the ratios of all kernels as they are now."""
    races = []
    for name, make in kernels.items():
        races.append(measure(name, make, 3 * ROUNDS))
        print(f"{name:<40}{races[-1].median_ratio(REFERENCE):>8.2f} x", flush=True)
    write_json(path, races, {"clock": "cpu"})


def steady_malloc() -> None:
    """Starts this script anew if glibc would move its thresholds while kernels run.

    By default whether a large tensor costs page faults depends on what was freed before it, which
    moved ratios by a third from run to run.
    """
    if not os.environ.keys() >= MALLOC.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MALLOC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--record", action="store_true", help="write the recorded ratios anew")
    options = parser.parse_args()
    steady_malloc()
    torch.set_num_threads(1)
    if options.record:
        record(KERNELS, RECORD)
        return
    kept = read_json(RECORD)
    there, here = (c["machine"]["processor"] for c in (kept.conditions, describe_conditions()))
    if there != here:
        print(f"recorded on {there}, this is {here}: ratios may differ for that reason alone")
    recorded = {race.title: race.median_ratio(REFERENCE) for race in kept.races}
    if losses := find_losses(KERNELS, recorded):
        sys.exit("\n".join(map(str, losses)))


if __name__ == "__main__":
    main()
