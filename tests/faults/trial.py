"""Runs tests on copies of the package, and judges whether they notice what is wrong with them."""

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from faults.planting import ROOT, Fault, plant

__all__ = ["Trials", "Verdict"]

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - (.*))?$", re.MULTILINE)
_NO_TESTS = 5  # exit code of pytest
_OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class Verdict:
    """What became of a fault."""

    result: str  # caught, missed, or why that is not known
    seconds: float
    test: str = ""  # that has noticed it
    message: str = ""
    tests: str = ""  # arguments of the last run of pytest


class _Outcome(NamedTuple):
    """The result of one run of pytest."""

    failed: str  # the first test that failed; "" if all passed
    message: str = ""


class Trials:
    """Plants faults and keeps the verdicts."""

    def __init__(
        self, rounds: dict[str, list[list[str]]], seconds: float, kept: Path | None
    ) -> None:
        """`rounds` are the arguments of the runs of pytest for each fault."""
        self._rounds, self._seconds, self._kept = rounds, seconds, kept
        self._verdicts: dict[str, Verdict] = {}
        self._changing = threading.Lock()
        if kept is not None and kept.exists():
            known = json.loads(kept.read_text(encoding="utf-8"))
            self._verdicts = {name: Verdict(**values) for name, values in known.items()}

    def run(self, faults: Sequence[Fault], jobs: int) -> dict[str, Verdict]:
        """Judges all faults that have no verdict yet."""
        waiting = [fault for fault in faults if not self._is_known(fault)]
        with ThreadPoolExecutor(jobs) as pool:
            for fault, verdict in zip(waiting, pool.map(self._judge, waiting), strict=True):
                print(f"{fault.id}: {verdict.result} {verdict.test}", file=sys.stderr, flush=True)
        return self._verdicts

    def _is_known(self, fault: Fault) -> bool:
        """Tells if a fault was caught, or missed by the very same tests."""
        found = self._verdicts.get(fault.id)
        last = " ".join(self._rounds[fault.id][-1])
        return found is not None and (found.result == "caught" or found.tests == last)

    def _judge(self, fault: Fault) -> Verdict:
        began, verdict = time.monotonic(), Verdict("missed", 0.0)
        with tempfile.TemporaryDirectory(prefix="untold-fault-") as name:
            for number, arguments in enumerate(self._rounds[fault.id]):
                folder = Path(name) / str(number)
                plant(fault, folder)
                outcome = self._pytest(arguments, folder)
                result = self._weigh(outcome, Path(name) / "intact")
                seconds = round(time.monotonic() - began, 1)
                verdict = Verdict(result, seconds, *outcome, " ".join(arguments))
                if result != "missed":
                    break
        with self._changing:
            self._verdicts[fault.id] = verdict
            if self._kept is not None:
                document = {key: asdict(value) for key, value in self._verdicts.items()}
                self._kept.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return verdict

    def _weigh(self, outcome: _Outcome, folder: Path) -> str:
        """Says what a run has shown; a test counts that passes without the fault."""
        if outcome.failed in ("", _OUT_OF_TIME):
            return outcome.failed or "missed"
        plant(None, folder)
        intact = self._pytest([outcome.failed], folder)
        return "fails without it, too" if intact.failed else "caught"

    def _pytest(self, arguments: Sequence[str], folder: Path) -> _Outcome:
        """Runs the tests on the package in `folder` until the first one fails."""
        own = {
            "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "500",  # pytest shortens its messages to the width of a terminal
        }
        options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, f"--basetemp={folder / 'tmp'}", *arguments],
            cwd=ROOT,
            env=os.environ | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return _Outcome(_OUT_OF_TIME)
        if process.returncode in (0, _NO_TESTS):
            return _Outcome("")
        if match := _FAILED.search(output):
            return _Outcome(match[1], (match[2] or "")[:200])
        raise RuntimeError(f"pytest {' '.join(arguments)} has ended:\n{output[-2000:]}")
