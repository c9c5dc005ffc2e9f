"""How long do commands take from their start to their first answer?

    python benchmarks/startup.py

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

from race import Table, take_turns, write_json
from untold.embedded import EXAMPLES, embedded_model

TRANSLATE = "untold translate, one sentence"
HELP = "untold --help"
TORCH = "import torch"
LIMITS = {HELP: 0.2, TRANSLATE: 2.5}  # seconds by the wall clock, on a quiet machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", type=Path, nargs="?", default=embedded_model())
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
    contenders = {
        name: lambda _, command=command: wait_for_answer(command)
        for name, command in commands.items()
    }
    for run in contenders.values():
        run(None)
    clock = time.perf_counter if options.clock == "wall" else children_seconds
    table = make_table(take_turns(contenders, [None], options.rounds, clock))
    print(table.text())
    if options.json:
        write_json(options.json, [], vars(options), [table])


def wait_for_answer(command: Sequence[str]) -> None:
    """Runs a process, which ends as soon as it has answered."""
    run = subprocess.run(
        [sys.executable, *command], input=EXAMPLES[0] + "\n", capture_output=True, text=True
    )
    if run.returncode:
        sys.exit(f"{' '.join(command)}: {run.stderr}")


def children_seconds() -> float:
    """The processor's seconds of all processes that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def make_table(seconds: Mapping[str, Sequence[float]]) -> Table:
    """One row for each command: its median, its spread, its ratio, and what it may take."""
    rows = []
    for name, rounds in seconds.items():
        middle = statistics.median(rounds)
        ratio = statistics.median(a / b for a, b in zip(rounds, seconds[TORCH], strict=True))
        spread = f"{min(rounds):.2f} to {max(rounds):.2f}"
        rows.append([name, f"{middle:.2f}", spread, f"{ratio:.2f} x", LIMITS.get(name, "-")])
    spread = f"spread of {len(seconds[HELP])} runs"
    columns = ["command", "seconds", spread, "of import torch", "at most, quiet"]
    return Table("Seconds from the start to the first answer", columns, rows)


if __name__ == "__main__":
    main()
