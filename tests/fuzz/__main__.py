"""Throws generated input at the command line: `make fuzz`, or `python -m fuzz` from tests/."""

import argparse
import faulthandler
import os
import sys
import tempfile
from pathlib import Path

from fuzz.runner import Finding, Limits, fuzz, work


def main() -> None:
    """Runs the parent, or with --work a worker."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=0, help="the first case, to repeat a finding")
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.cases)
    if options.work is None:
        sys.exit(_fuzz(options.seed, numbers, 60 * options.minutes))
    faulthandler.enable()
    # The commands write to sys.stdout; reports need a pipe that nothing else can reach.
    with os.fdopen(os.dup(1), "w") as report:
        os.dup2(2, 1)
        work(options.work, options.seed, numbers, report)


def _fuzz(seed: int, numbers: range, seconds: float) -> int:
    findings = 0
    with tempfile.TemporaryDirectory(prefix="untold-fuzz-") as folder:
        for each in fuzz(Path(folder), seed, numbers, Limits(seconds)):
            if not isinstance(each, Finding):
                print(f"seed {seed}: {each} cases, {findings} findings")
                continue
            findings += 1
            print(f"--- case {each.number}: {each.what}\n{each.case}\n{each.output.strip()}")
            print(
                f"again: python -m fuzz --seed {seed} --first {each.number} --cases 1", flush=True
            )
    return 1 if findings else 0


main()
