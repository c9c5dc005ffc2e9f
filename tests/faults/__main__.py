"""Plants the faults of faults.toml, one at a time, and asks whether the tests notice.

    cd tests && python -m faults check
    cd tests && python -m faults run --first --tests "-n 2 -m 'not slow'" --json found.json

Each fault is planted in a copy of src/untold, which stands first on PYTHONPATH, so that a checkout
never changes. A fault is caught if a test fails with it that passes without it. `--first` runs the
tests that are likeliest to notice: those of the fault's area, or those that are named behind it;
what a part of the tests catches the whole catches, too. A run goes on where its JSON ends.
"""

import argparse
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.planting import ROOT, Fault, find, read_faults
from faults.trial import Verdict, Verdicts, judge


def main() -> None:
    """Checks that all faults are there, and plants them."""
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("check", "run"))
    parser.add_argument("--tests", help="arguments of pytest: tests from the checkout, options")
    parser.add_argument("--first", nargs="*", metavar="DIR", help="tests that run before these")
    parser.add_argument("--only", nargs="+", metavar="ID", default=())
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="for each run of pytest")
    parser.add_argument("--json", type=Path, help="where verdicts are kept")
    options = parser.parse_args()
    faults, likely = read_faults()
    if unknown := set(options.only) - {fault.id for fault in faults}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    faults = [fault for fault in faults if fault.id in options.only or not options.only]
    places = {fault.id: [str(file) for file, _ in find(fault)] for fault in faults}
    if lost := [
        f"{name} ({', '.join(files[:3])})" for name, files in places.items() if len(files) != 1
    ]:
        sys.exit(f"not found at one place alone, so mend faults.toml: {'; '.join(lost)}")
    if options.what == "check":
        print(f"{len(faults)} faults, each at one place")
    elif options.first is None and options.tests is None:
        parser.error("run needs --tests, --first or both")
    else:
        _run(faults, options, likely)


def _run(faults: list[Fault], options: argparse.Namespace, likely: dict[str, list[str]]) -> None:
    verdicts, seconds = Verdicts(options.json), 60 * options.minutes
    rounds = {fault.id: _rounds(fault, options, likely) for fault in faults}

    def plant(fault: Fault) -> None:
        if not verdicts.are_final(fault, rounds[fault.id][-1]):
            verdicts.add(fault, judge(fault, rounds[fault.id], seconds))

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(plant, faults))
    _print_table(faults, verdicts.known)


def _rounds(
    fault: Fault, options: argparse.Namespace, likely: dict[str, list[str]]
) -> list[list[str]]:
    """Lists the arguments of one or two runs of pytest, with the same options."""
    whole = shlex.split(options.tests or "")
    rounds = [] if options.tests is None else [whole]
    if options.first is not None:
        there = [f"tests/{test}" for test in likely[fault.area] if (ROOT / "tests" / test).exists()]
        flags = [each for each in whole if not (ROOT / each.partition("::")[0]).exists()]
        rounds.insert(0, [*(options.first or there), *flags])
    return rounds


def _print_table(faults: list[Fault], verdicts: dict[str, Verdict]) -> None:
    print("| fault | area | verdict | seconds | noticed by |\n|---|---|---|---:|---|")
    for fault in faults:
        found = verdicts[fault.id]
        print(
            f"| {fault.id} | {fault.area} | {found.result} | {found.seconds:.0f} | {found.test} |"
        )
    caught = sum(verdicts[fault.id].result == "caught" for fault in faults)
    print(f"\ncaught {caught} of {len(faults)}")


main()
