"""Plants the faults of faults.toml, one at a time, and asks whether the tests notice.

    cd tests && python -m faults check
    cd tests && python -m faults run --first --tests "tests/unit tests/golden" --json found.json

Each fault is planted in a copy of src/untold, which stands first on PYTHONPATH, so that a checkout
never changes. A fault is caught if a test fails with it that passes without it. `--first` runs the
tests that are likeliest to notice: those of the fault's area, or those that are named behind it;
what a part of the tests catches the whole catches, too. A run goes on where its JSON ends.
"""

import argparse
import sys
from pathlib import Path

from faults.planting import ROOT, Fault, find, read_faults
from faults.trial import Trials, Verdict


def main() -> None:
    """Checks that all faults are there, or plants them."""
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("check", "run"))
    parser.add_argument("--tests", default="", help="arguments of pytest, from the checkout")
    parser.add_argument("--first", nargs="*", metavar="DIR", help="tests that run before these")
    parser.add_argument("--only", nargs="+", metavar="ID", default=())
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="for each run of pytest")
    parser.add_argument("--json", type=Path, help="where verdicts are kept")
    options = parser.parse_args()
    faults, likely = read_faults()
    if unknown := set(options.only) - {fault.id for fault in faults}:
        sys.exit(f"no such fault: {', '.join(sorted(unknown))}")
    faults = [fault for fault in faults if fault.id in options.only or not options.only]
    lost = [message for fault in faults if (message := find(fault).mistake)]
    if lost:
        sys.exit("\n".join(lost))
    if options.what == "check":
        print(f"{len(faults)} faults, each at one place")
        return
    if options.first is None and not options.tests:
        parser.error("run needs --tests, --first or both")
    rounds = _rounds(faults, options, likely)
    verdicts = Trials(rounds, 60 * options.minutes, options.json).run(faults, options.jobs)
    _print_table(faults, verdicts)


def _rounds(
    faults: list[Fault], options: argparse.Namespace, likely: dict[str, list[str]]
) -> dict[str, list[list[str]]]:
    """Lists for each fault the arguments of one or two runs of pytest."""
    whole = [options.tests.split()] if options.tests else []
    if options.first is None:
        return {fault.id: whole for fault in faults}
    found = {}
    for fault in faults:
        first = options.first or [test for test in likely[fault.area] if (ROOT / test).exists()]
        found[fault.id] = [first, *whole] if first else whole
    return found


def _print_table(faults: list[Fault], verdicts: dict[str, Verdict]) -> None:
    caught = [fault for fault in faults if verdicts[fault.id].result == "caught"]
    print("| fault | area | verdict | seconds | noticed by |\n|---|---|---|---:|---|")
    for fault in faults:
        found = verdicts[fault.id]
        print(
            f"| {fault.id} | {fault.area} | {found.result} | {found.seconds:.0f} | {found.test} |"
        )
    print(f"\ncaught {len(caught)} of {len(faults)}")


main()
