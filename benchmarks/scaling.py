"""Measures what a second thread and a second process are worth, in training and translating.

    python benchmarks/scaling.py                   # tiny and base
    python benchmarks/scaling.py --presets tiny

Efficiency is the speed of two over twice the speed of one: 1.00 is perfect, 0.50 means that the
second one is of no use. Threads race within one process, in turns. Processes are two workers on one
thread each: alone, one of them works; together, both do at the same time. Two training processes
exchange their gradients after every update, as those of torchrun do. The machine must be quiet and
have two cores; it is measured by the wall clock, since waiting is what costs.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from contenders import UntoldTraining, shape
from machine import count_others
from race import Race, Table, take_turns, write_json
from searchers import SourceBatch, Untold
from untold.inference.model import prepare
from untold.models.build import build_model
from workload import small_workload, training_batches

VOCABULARY = 10_000
SENTENCES = {"one sentence": 1, "16 sentences": 16}
UPDATE = "update"
ONE, TWO = "1", "2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--presets", nargs="+", choices=["tiny", "small", "base"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    parser.add_argument("--worker", nargs=2, metavar=("PRESET", "JOB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    if others := count_others():
        print(f"warning: {others} other processes run: a second thread or process has no core")
    races, rows = [], []
    for preset in options.presets or ["tiny", "base"]:
        found = [
            *race_threads(preset, options.rounds),
            *race_processes(preset, options.rounds),
        ]
        for race in found:
            rows.append(efficiency(race))
            print("  ".join(map(str, rows[-1])), flush=True)
        races += found
    table = Table("Efficiency of two", ["what", "speed of two / one", "efficiency", "spread"], rows)
    print(table.text())
    if options.json:
        write_json(options.json, [], vars(options), [table])


def efficiency(race: Race) -> list[str]:
    """Words speed and efficiency of the second contender, which is two of the first."""
    gains = [race.work["gain"] / ratio for ratio in race.ratios(TWO)]
    middle = statistics.median(gains)
    spread = f"{min(gains) / 2:.2f} to {max(gains) / 2:.2f}"
    return [race.title, f"{middle:.2f}", f"{middle / 2:.2f}", spread]


def jobs(preset: str) -> dict[str, Callable[[], object]]:
    """Makes an update and two searches of a preset."""
    workload = small_workload(VOCABULARY)
    (batch,) = training_batches(workload, 1024, 1)
    training = UntoldTraining(shape(preset, 0.1), VOCABULARY, workload)
    model = build_model(shape(preset, 0.0).model, (VOCABULARY, VOCABULARY), shared=True)
    searcher, found = Untold(prepare(model), 4), {UPDATE: lambda: training.update(batch)}
    for name, count in SENTENCES.items():
        source = SourceBatch([[*range(7, 21), 3]] * count, 15)
        found[name] = lambda source=source: searcher.search(source)
    return found


def race_threads(preset: str, rounds: int) -> Iterator[Race]:
    for name, job in jobs(preset).items():

        def run(threads: int, job: Callable[[], object] = job) -> None:
            torch.set_num_threads(threads)
            job()

        contenders = {ONE: lambda _, run=run: run(1), TWO: lambda _, run=run: run(2)}
        for contender in contenders.values():
            contender(None)
        seconds = take_turns(contenders, [None], rounds)
        yield Race(f"2 threads, {preset}, {name}", seconds, {"gain": 1})


def race_processes(preset: str, rounds: int) -> Iterator[Race]:
    for name in (UPDATE, "16 sentences"):
        with workers(preset, name) as both, worker(preset, name, {}) as alone:
            contenders = {ONE: lambda _, a=alone: ask([a]), TWO: lambda _, b=both: ask(b)}
            for contender in contenders.values():
                contender(None)
            seconds = take_turns(contenders, [None], rounds)
        yield Race(f"2 processes, {preset}, {name}", seconds, {"gain": 2})


@contextmanager
def workers(preset: str, job: str) -> Iterator[list["subprocess.Popen[str]"]]:
    """Starts two processes of one group."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    with ExitStack() as stack:
        ranks = [group | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
        started = [stack.enter_context(worker(preset, job, rank)) for rank in ranks]
        yield started


@contextmanager
def worker(preset: str, job: str, settings: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--worker", preset, job],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | dict(settings),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(processes: Sequence["subprocess.Popen[str]"]) -> None:
    """Lets all work at the same time, and waits for the last one."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout is not None
        if not process.stdout.readline():
            sys.exit("a worker died: see its message above")


def work(preset: str, name: str) -> None:
    """Does a job whenever a line arrives; processes of one group exchange gradients."""
    from untold.training.distributed import GradientBuckets, ProcessGroup

    torch.set_num_threads(1)
    processes = ProcessGroup.init("cpu", 2.0)
    job = jobs(preset)[name]
    model = build_model(shape(preset, 0.0).model, (VOCABULARY, VOCABULARY), shared=True)
    # As many numbers as those of the model that trains.
    gradients = GradientBuckets(processes, model.parameters())
    for _ in sys.stdin:
        job()
        if name == UPDATE:
            gradients.finish()
        print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
