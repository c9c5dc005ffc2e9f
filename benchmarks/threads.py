"""Training speed on quiet and on busy machines, for several choices of threads and spinning.

    python benchmarks/threads.py
    python benchmarks/threads.py --past-future

The model is the demo's; each choice trains in a process of its own, since OpenMP reads its settings
once. The processes take turns while busy loops keep the processors from them: none, two, and ten.
The loops stand still while processes start. Speeds are ratios to the library's default within one
round. Run it on a machine where nothing else runs: it warns if something does.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from machine import count_others
from untold.hardware import choose_threads

SURROUNDINGS = {"quiet": 0, "two busy loops": 2, "ten busy loops": 10}
DEFAULT, OURS = "library default", "ours"
CHOICES: dict[str, dict[str, str]] = {
    DEFAULT: {},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "spin 1000": {"GOMP_SPINCOUNT": "1000"},
    OURS: {},
}
BUDGET = 80  # seconds after which no new round begins: three surroundings in 6 minutes
UNSET = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "MKL_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each turn")
    parser.add_argument("--past-future", action="store_true", help="the demo's second model")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.past_future, options.seconds)
        return
    if others := count_others():
        print(f"warning: {others} other processes run: the surroundings are not what they say")
    found = {}
    for name, loops in SURROUNDINGS.items():
        found[name] = measure(loops, options)
        print(table(name, found[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(loops: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Target tokens a second of each choice, a value each round."""
    with ExitStack() as stack:
        busy = stack.enter_context(busy_loops(loops))
        time.sleep(1)
        environments = {name: environment(name) for name in CHOICES}
        send(busy, signal.SIGSTOP)
        workers = {
            name: stack.enter_context(worker(environments[name], options)) for name in CHOICES
        }
        send(busy, signal.SIGCONT)
        speeds: dict[str, list[float]] = {name: [] for name in CHOICES}
        ends = time.monotonic() + BUDGET
        for number in range(options.rounds):
            if number and time.monotonic() > ends:
                break
            for name, each in workers.items():
                speeds[name].append(turn(each))
    return speeds


def environment(name: str) -> dict[str, str]:
    """The variables of one choice; ours looks at the cores that it may use."""
    environ = {key: value for key, value in os.environ.items() if key not in UNSET}
    environ |= CHOICES[name]
    if name == OURS:
        choose_threads(environ)
    return environ


@contextmanager
def busy_loops(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def send(processes: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)


@contextmanager
def worker(
    environ: Mapping[str, str], options: argparse.Namespace
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, "--worker", f"--seconds={options.seconds}"]
    command += ["--past-future"] if options.past_future else []
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environ, **pipes)
    try:
        reply(process)  # it is ready
        yield process
    finally:
        process.kill()
        process.wait()


def turn(process: subprocess.Popen[str]) -> float:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(reply(process))


def reply(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        sys.exit("a worker died: see its message above")
    return line


def work(past_future: bool, seconds: float) -> None:
    """Train for some seconds whenever a line arrives, and print the target tokens a second."""
    from contenders import UntoldTraining
    from untold.config import load_config
    from workload import small_workload, training_batches

    settings = ["model.separator.kind=gdr"] if past_future else []
    with as_file(files("untold.lab") / "demo.toml") as path:
        config = load_config(path, settings)
    size = 1000
    workload = small_workload(size)
    batches = training_batches(workload, config.train.batch_tokens, 8)
    model = UntoldTraining(config, size, workload)
    for batch in batches[:2]:
        model.update(batch)
    print("ready", flush=True)
    for _ in sys.stdin:
        began, tokens, number = time.perf_counter(), 0, 0
        while time.perf_counter() - began < seconds:
            batch = batches[number % len(batches)]
            model.update(batch)
            tokens, number = tokens + batch.target_tokens, number + 1
        print(tokens / (time.perf_counter() - began), flush=True)


def table(title: str, speeds: Mapping[str, list[float]]) -> str:
    """One line a choice: tokens a second, and the ratio to the default, median (min to max)."""
    lines = [f"{title:<20}{'target tokens/s':>16}   of the library's default"]
    for name, each in speeds.items():
        ratios = [own / other for own, other in zip(each, speeds[DEFAULT], strict=True)]
        spread = f"{statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(f"{name:<20}{statistics.median(each):>16,.0f}   {spread}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
