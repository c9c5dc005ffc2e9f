"""Kills workers of torchrun jobs and counts how many jobs end as if nothing had happened.

    python tests/torture/restarts.py [--rounds 2] [--seed 1] [--plain]

Each round kills one worker with SIGKILL for every way of starting a job, every moment and every
rank; a job has recovered if torchrun ends with 0 and the last checkpoint is that of an undisturbed
run, bit for bit. With --plain the jobs are a few lines of torch instead: the control, which shows
what torchrun's restarts do without untold. This is not part of the test suite: a round takes ten
minutes on two cores.
"""

import argparse
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from jobs import free_port, newest, records_so_far, running, workers, write_toml
from toys import checkpoint_contents, toy_config, toy_values, write_corpus
from untold.training.log import NullReporter
from untold.training.run import RunOptions, train

PATIENCE = 90  # seconds until a job counts as hung
TRAIN = {"steps": 200, "save_every": 10, "log_every": 1, "validate_every": 40}
WAYS = ("static", "standalone", "c10d", "two machines")
PLAIN = """
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(60):
    dist.all_reduce(torch.ones(10))
    time.sleep(0.05)
    if dist.get_rank() == 0:
        with open(sys.argv[1] + "/metrics.jsonl", "a") as file:
            print(step, file=file)
dist.barrier()
dist.destroy_process_group()
"""


def launchers(way: str) -> list[list[object]]:
    """The options of torchrun: one list for each machine."""
    one = ["--nproc-per-node", 2, "--max-restarts", 3]
    if way == "static":
        return [[*one, "--master-addr", "127.0.0.1", "--master-port", free_port()]]
    if way == "standalone":
        return [[*one, "--standalone"]]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"]
    if way == "c10d":
        return [[*one, *meeting]]
    return [["--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 3, *meeting]] * 2


def has_come(moment: str, out: Path, dice: random.Random) -> Callable[[], bool]:
    """Tells when to kill; `starting` is any time between the start of a worker and its updates."""
    if moment == "saving":
        return lambda: any((out / "checkpoints").glob(".tmp-*"))
    if moment == "training":
        step = dice.randint(1, 50)
        return lambda: records_so_far(out) >= step
    end = time.monotonic() + dice.uniform(0, 5)
    return lambda: time.monotonic() > end


def find_worker(processes: list[subprocess.Popen[str]], rank: int) -> int | None:
    """The number of the process that has this rank now, on whatever machine."""
    found = {rank: pid for process in processes for rank, pid in workers(process).items()}
    return found.get(rank)


@contextlib.contextmanager
def job(way: str, command: list[object]) -> Iterator[list[subprocess.Popen[str]]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(running("torch.distributed.run", *options, *command))
            for options in launchers(way)
        ]


def outcome(
    way: str, command: list[object], watch: Callable[[], Callable[[], bool]], rank: int
) -> str:
    """Runs a job, kills one of its workers, and says how torchrun ended."""
    with job(way, command) as processes:
        while find_worker(processes, rank) is None:
            time.sleep(0.05)
        due = watch()
        while not due() and all(process.poll() is None for process in processes):
            time.sleep(0.002)
        worker = find_worker(processes, rank)
        if worker is None:
            return "not hit"
        os.kill(worker, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while any(process.poll() is None for process in processes):
            if time.monotonic() > end:
                return "hung"
            time.sleep(0.1)
        codes = [process.returncode for process in processes]
        return f"failed with {codes}" if any(codes) else "ended"


def describe(run: Path) -> dict[str, object]:
    """All that is the same in one process and in two: the weights, the optimizer, the place."""
    contents = checkpoint_contents(newest(run))
    return {name: value for name, value in contents.items() if name != "unlogged"}


@dataclass(frozen=True)
class Place:
    """A directory with a corpus, a configuration, the control's script and an undisturbed run."""

    directory: Path
    plain: bool

    def prepare(self) -> None:
        corpus, whole = write_corpus(self.directory / "corpus"), self.directory / "whole"
        write_toml(self.directory / "toy.toml", toy_values(corpus, train=TRAIN))
        (self.directory / "plain.py").write_text(PLAIN)
        train(toy_config(corpus, train=TRAIN), RunOptions(whole), NullReporter(whole, 0))

    def command(self, out: Path) -> list[object]:
        if self.plain:
            return [self.directory / "plain.py", out]
        return ["-m", "untold", "train", self.directory / "toy.toml", "--out", out]

    def judge(self, ending: str, out: Path) -> str:
        if ending != "ended" or self.plain:
            return ending
        same = describe(out) == describe(self.directory / "whole")
        return "recovered" if same else "ended with other weights"


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill workers of torchrun jobs.")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    dice, counts = random.Random(options.seed), Counter()
    moments = ("training",) if options.plain else ("starting", "training", "saving")
    cases = list(itertools.product(WAYS, moments, (0, 1))) * options.rounds
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name), options.plain)
        place.prepare()
        for number, (way, moment, rank) in enumerate(cases):
            out, began = Path(name) / f"run-{number}", time.monotonic()
            out.mkdir()
            watch = partial(has_come, moment, out, dice)
            ending = outcome(way, place.command(out), watch, rank)
            verdict, seconds = place.judge(ending, out), time.monotonic() - began
            counts[way, verdict] += 1
            print(f"{way}, {moment}, rank {rank}: {verdict} after {seconds:.0f} s", flush=True)
    for (way, verdict), count in sorted(counts.items()):
        print(f"{way}: {verdict} {count}")


if __name__ == "__main__":
    main()
