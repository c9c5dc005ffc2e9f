"""Runs tests on copies of the package that have a fault, and keeps the verdicts."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from faults.planting import ROOT, Fault, plant

__all__ = ["Verdict", "Verdicts", "judge"]

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - (.*))?$", re.MULTILINE)
_NO_TESTS = 5  # how pytest ends if it was to run none
_OPTIONS = ("-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider")


@dataclass(frozen=True)
class Verdict:
    """What became of a fault."""

    result: str  # caught, missed, or why that is not known
    seconds: float
    test: str  # that has noticed it
    message: str
    tests: str  # arguments of the last run of pytest


class Verdicts:
    """The verdicts by fault, in a file if one is named, so that a run can go on."""

    def __init__(self, file: Path | None) -> None:
        self._file, self._changing = file, threading.Lock()
        known = json.loads(file.read_text("utf-8")) if file is not None and file.exists() else {}
        self.known = {name: Verdict(**values) for name, values in known.items()}

    def are_final(self, fault: Fault, last: Sequence[str]) -> bool:
        """Tells if a fault was caught, or missed by the very same tests."""
        verdict = self.known.get(fault.id)
        return verdict is not None and (
            verdict.result == "caught" or verdict.tests == " ".join(last)
        )

    def add(self, fault: Fault, verdict: Verdict) -> None:
        """Keeps one more."""
        with self._changing:
            self.known[fault.id] = verdict
            if self._file is not None:
                document = {name: asdict(each) for name, each in self.known.items()}
                self._file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{fault.id}: {verdict.result} {verdict.test}", file=sys.stderr, flush=True)


def judge(fault: Fault, rounds: Sequence[Sequence[str]], seconds: float) -> Verdict:
    """Runs tests with a fault until one fails; `rounds` are the arguments of runs of pytest.

    A failure counts if the same test passes without the fault.
    """
    began, failed, message, result, arguments = time.monotonic(), "", "", "", ()
    with tempfile.TemporaryDirectory(prefix="untold-fault-") as folder:
        for number, arguments in enumerate(rounds):
            failed, message = _run_pytest(fault, arguments, Path(folder, str(number)), seconds)
            if failed:
                intact, _ = _run_pytest(None, [failed], Path(folder, "intact"), seconds)
                result = "fails without it, too" if intact else "caught"
                break
    taken, result = round(time.monotonic() - began, 1), result or message or "missed"
    return Verdict(result, taken, failed, message, " ".join(arguments))


def _run_pytest(
    fault: Fault | None, arguments: Sequence[str], folder: Path, seconds: float
) -> tuple[str, str]:
    """Runs tests on a copy of the package in `folder`; returns the first that fails, and why."""
    plant(fault, folder)
    own = {
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "500",  # pytest shortens messages to the width of a terminal
    }
    command = [sys.executable, "-m", "pytest", *_OPTIONS, f"--basetemp={folder / 'tmp'}"]
    with subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with all that the tests have started
            return "", "out of time"
    if process.returncode in (0, _NO_TESTS):
        return "", ""
    if match := _FAILED.search(output):
        return match[1], (match[2] or "")[:200]
    raise RuntimeError(f"pytest {' '.join(arguments)} has ended:\n{output[-2000:]}")
