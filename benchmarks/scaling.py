"""What are a second thread and a second process worth, in training and in translating?

    python benchmarks/scaling.py                   # tiny and base
    python benchmarks/scaling.py --presets tiny
    python benchmarks/scaling.py --busy 2          # beside two busy loops

Efficiency is the speed of two over twice the speed of one: 1.00 is perfect, 0.50 means that the
second one is of no use. Threads race within one process, in turns. Processes are two workers on one
thread each: alone, one of them works; together, both do at the same time. Two training processes
sum their gradients after every update, as those of torchrun do. The machine must be quiet and have
two cores; it is measured by the wall clock, since waiting is what costs.

With --busy, other processes want the cores all the time. OpenMP's own settings, such as
GOMP_SPINCOUNT, are taken from the environment.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from contenders import (
    PRESETS,
    SourceBatch,
    Untold,
    UntoldTraining,
    shape,
    small_workload,
    training_batches,
    untrained,
)
from race import Race, Table, Worker, count_others, take_turns, write_json
from untold.inference.model import prepare

VOCABULARY = 10_000
SENTENCES = {"one sentence": 1, "16 sentences": 16}
UPDATE = "update"
ONE, TWO = "1", "2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=["tiny", "base"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", type=int, default=0, help="loops that keep the cores busy")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    parser.add_argument("--worker", nargs=2, metavar=("PRESET", "JOB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    if others := count_others():
        print(f"warning: {others} other processes run: a second thread or process has no core")
    rows = []
    with busy_loops(options.busy):
        for preset in options.presets:
            for races in (race_threads, race_processes):
                for race in races(preset, options.rounds):
                    rows.append(efficiency(race))
                    print("  ".join(rows[-1]), flush=True)
    beside = f", beside {options.busy} busy loops" if options.busy else ""
    columns = ["what", "speed of two / one", "efficiency", "spread"]
    table = Table(f"Efficiency of two{beside}", columns, rows)
    print(table.text())
    if options.json:
        write_json(options.json, [], vars(options), [table])


def efficiency(race: Race) -> list[str]:
    """Words speed and efficiency of the second contender, which is two of the first."""
    gains = [race.work["gain"] / ratio for ratio in race.ratios(TWO)]
    middle = statistics.median(gains)
    spread = f"{min(gains) / 2:.2f} to {max(gains) / 2:.2f}"
    return [race.title, f"{middle:.2f}", f"{middle / 2:.2f}", spread]


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that never wait for anything."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def make_jobs(preset: str) -> tuple[UntoldTraining, dict[str, Callable[[], object]]]:
    """Makes an update and two searches of a preset, and what the update trains."""
    workload = small_workload(VOCABULARY)
    (batch,) = training_batches(workload, 1024, 1)
    training = UntoldTraining(shape(preset, 0.1), VOCABULARY, workload)
    searcher = Untold(prepare(untrained(shape(preset, 0.0), VOCABULARY)), 4)
    jobs: dict[str, Callable[[], object]] = {UPDATE: lambda: training.update(batch)}
    for name, count in SENTENCES.items():
        source = SourceBatch([[*range(7, 21), 3]] * count, 15)
        jobs[name] = lambda source=source: searcher.search(source)
    return training, jobs


def race_threads(preset: str, rounds: int) -> Iterator[Race]:
    """One thread against two, in this process."""
    for name, job in make_jobs(preset)[1].items():

        def run(threads: int, job: Callable[[], object] = job) -> None:
            torch.set_num_threads(threads)
            job()

        contenders = {ONE: lambda _, run=run: run(1), TWO: lambda _, run=run: run(2)}
        yield race_two(f"2 threads, {preset}, {name}", contenders, rounds, 1)


def race_processes(preset: str, rounds: int) -> Iterator[Race]:
    """One process against two, which do twice the work."""
    for name in (UPDATE, "16 sentences"):
        with ExitStack() as stack:
            alone = stack.enter_context(start_worker(preset, name, {}))
            both = [stack.enter_context(start_worker(preset, name, rank)) for rank in ranks()]

            def work_together(_: object, both: list[Worker] = both) -> None:
                for process in both:
                    process.send()
                for process in both:
                    process.receive()

            contenders = {ONE: lambda _, alone=alone: alone.ask(), TWO: work_together}
            yield race_two(f"2 processes, {preset}, {name}", contenders, rounds, 2)


def race_two(
    title: str, contenders: Mapping[str, Callable[[object], object]], rounds: int, gain: int
) -> Race:
    """Races one against two, which do `gain` times the work of one."""
    for contender in contenders.values():
        contender(None)
    return Race(title, take_turns(contenders, [None], rounds), {"gain": gain})


def ranks() -> list[dict[str, str]]:
    """The environments of two processes of one group."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [group | {"RANK": str(rank)} for rank in range(2)]


def start_worker(preset: str, job: str, rank: Mapping[str, str]) -> Worker:
    """A process that does the job whenever it is asked to."""
    command = [sys.executable, __file__, "--worker", preset, job]
    return Worker(command, os.environ | {"OMP_NUM_THREADS": "1"} | dict(rank))


def work(preset: str, name: str) -> None:
    """Does a job whenever a line arrives; processes of one group sum their gradients."""
    torch.set_num_threads(1)
    training, jobs = make_jobs(preset)
    # As many numbers as the model has that trains.
    gradients = torch.zeros(sum(p.numel() for p in training.model.parameters()))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    for _ in sys.stdin:
        jobs[name]()
        if name == UPDATE and dist.is_initialized():
            dist.all_reduce(gradients)
        print(json.dumps(None), flush=True)


if __name__ == "__main__":
    main()
