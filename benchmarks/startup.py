"""Measures how long commands take from their start to their first answer.

    python benchmarks/startup.py runs/demo

`untold --help` should answer within 0.2 seconds and `untold translate` within 2.5, most of which
is the import of torch; so that import is measured beside them, in turns, as is an empty Python.
Every run is a process of its own; a first, uncounted one brings its files into the cache.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from race import Table, write_json

SENTENCE = "The child reads a book ."
TRANSLATE = "untold translate, one sentence"
HELP = "untold --help"
TORCH = "import torch"
LIMITS = {HELP: 0.2, TRANSLATE: 2.5}  # seconds by the wall clock, on a quiet machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", type=Path, help="a model directory or run, such as runs/demo")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: on a busy machine"
    )
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    commands = {
        TRANSLATE: ["-m", "untold", "translate", str(options.model)],
        HELP: ["-m", "untold", "--help"],
        TORCH: ["-c", "import torch"],
        "empty Python": ["-c", "pass"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(options.rounds + 1):
        for name, command in commands.items():
            spent = first_answer(command, options.clock)
            if number:  # the first round fills the system's cache
                seconds[name].append(spent)
    found = table(seconds)
    print(found.text())
    if options.json:
        write_json(options.json, [], vars(options), [found])


def first_answer(command: Sequence[str], clock: str) -> float:
    """Returns the seconds of one process; it ends as soon as it has answered."""
    before = _children_seconds()
    began = time.perf_counter()
    run = subprocess.run(
        [sys.executable, *command], input=SENTENCE + "\n", capture_output=True, text=True
    )
    wall = time.perf_counter() - began
    if run.returncode:
        sys.exit(f"{' '.join(command)}: {run.stderr}")
    return wall if clock == "wall" else _children_seconds() - before


def _children_seconds() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


def table(seconds: Mapping[str, Sequence[float]]) -> Table:
    """One row for each command: its median, its spread, its ratio, and what it may take."""
    rows = [
        [
            name,
            f"{statistics.median(each):.2f}",
            f"{min(each):.2f} to {max(each):.2f}",
            f"{statistics.median(a / b for a, b in zip(each, seconds[TORCH], strict=True)):.2f} x",
            LIMITS.get(name, "-"),
        ]
        for name, each in seconds.items()
    ]
    spread = f"spread of {len(seconds[HELP])} runs"
    columns = ["command", "seconds", spread, "of import torch", "at most, quiet"]
    return Table("Seconds from the start to the first answer", columns, rows)


if __name__ == "__main__":
    main()
