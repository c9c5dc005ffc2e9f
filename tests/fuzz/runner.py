"""Runs cases in-process inside a worker, which a parent watches for signals and hangs.

A worker runs many cases, since importing torch takes longer than most of them. It writes the number
of a case before it runs it, so that the parent knows which one killed it or made it hang. Cases
below zero are controls: faults that the parent must notice.
"""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from fuzz.cases import Case, make_case
from fuzz.in_process import run_in_process
from fuzz.workshop import build_workshop, use_workshop

__all__ = ["Finding", "Limits", "fuzz", "work"]

GOOD_CODES = (0, 1, 2, 130, 141, 143)  # 70 is documented, too: it says that untold is at fault
_LONGEST_LINE = 2000  # an error that fills the screen helps nobody


@dataclass(frozen=True)
class Finding:
    """Something that must not happen, and the case that did it."""

    number: int
    what: str
    case: str
    output: str


@dataclass(frozen=True)
class Limits:
    """How long all cases together may take, and how long one of them may, in seconds."""

    seconds: float
    case_seconds: float = 30.0


def fuzz(folder: Path, seed: int, numbers: range, limits: Limits) -> Iterator[Finding | int]:
    """Runs cases until the time is over; yields each finding, and at last the number of cases."""
    if not (workshop := folder / "workshop").exists():
        build_workshop(workshop)
    ends, number, done = time.monotonic() + limits.seconds, numbers.start, 0
    while number < numbers.stop and time.monotonic() < ends:
        rest = range(number, numbers.stop)
        for record in _watch(folder, seed, rest, (ends, limits.case_seconds)):
            number, done = record["number"] + 1, done + 1
            if record["what"]:
                yield Finding(**record)
    yield done


def work(folder: Path, seed: int, numbers: range, report: TextIO) -> None:
    """Runs cases one after the other in this process, and reports each as a line of JSON."""
    import untold.training.run
    import untold.translator  # noqa: F401 (their time is not that of the first case)

    for number in numbers:
        dice = random.Random(f"{seed}/{number}")
        place = folder / f"case-{os.getpid()}"
        use_workshop(folder / "workshop", place)
        try:
            case = make_case(dice, place)
            _tell(report, number=number, case=_describe(case))
            what, output = _run(case, place) if number >= 0 else _run_control(number, place)
            _tell(report, number=number, what=what, case=_describe(case), output=output[-3000:])
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _watch(
    folder: Path, seed: int, numbers: range, times: tuple[float, float]
) -> Iterator[dict[str, Any]]:
    """Starts a worker and yields what it finds, until it ends, dies or hangs, or time is over."""
    ends, longest = times
    command = [sys.executable, "-m", "fuzz", "--work", str(folder), "--seed", str(seed)]
    command += ["--first", str(numbers.start), "--cases", str(len(numbers))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    log = folder / "worker.log"
    with (
        open(log, "wb") as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            env=environment,
        ) as worker,
    ):
        assert worker.stdout is not None
        begun: dict[str, Any] | None = None
        watchdog = _Watchdog(worker, longest)
        for line in worker.stdout:
            record = json.loads(line)
            if "what" not in record:
                begun = record
                watchdog.restart()
                continue
            begun = None
            yield record
            if time.monotonic() > ends:
                worker.kill()
                break
        watchdog.stop()
        code = worker.wait()
    if begun is not None and time.monotonic() <= ends + longest:
        hung = watchdog.has_bitten
        what = f"no end after {longest:g} s" if hung else f"the process ended with {code}"
        yield begun | {"what": what, "output": log.read_text(errors="replace")[-3000:]}


class _Watchdog:
    """Ends a worker with SIGABRT, which prints its stack, when a case takes too long."""

    def __init__(self, worker: "subprocess.Popen[bytes]", longest: float) -> None:
        self.has_bitten = False
        self._worker, self._since, self._on = worker, math.inf, True
        self._longest = longest
        self._thread = threading.Thread(target=self._guard, daemon=True)
        self._thread.start()

    def restart(self) -> None:
        self._since = time.monotonic()

    def stop(self) -> None:
        self._on = False
        self._thread.join()

    def _guard(self) -> None:
        while self._on and self._worker.poll() is None:
            if time.monotonic() - self._since > self._longest:
                self.has_bitten = True
                self._worker.send_signal(signal.SIGABRT)
                time.sleep(2)
                self._worker.kill()
                return
            time.sleep(0.2)


def _run(case: Case, place: Path) -> tuple[str, str]:
    """Runs a case; returns what is wrong with its end, and its errors."""
    ended = run_in_process(case.arguments, place, case.text)
    if ended.escaped is not None:
        return f"{type(ended.escaped).__name__} came through", f"{ended.errors}\n{ended.escaped!r}"
    return _judge(ended.code, ended.errors), ended.errors


def _run_control(number: int, place: Path) -> tuple[str, str]:
    """Commits one of the faults that a parent must notice; -4 is no fault."""
    if number == -1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == -2:
        time.sleep(3600)
    with patch("untold.commands.options.check_output", side_effect=KeyError("a fault")):
        case = Case(("explain", "run", "--source", "a cat", "--out", "new.svg"))
        return _run(case if number == -3 else Case(("info", "run")), place)


def _judge(code: object, errors: str) -> str:
    lines = errors.strip().split("\n")
    if code not in GOOD_CODES:
        return f"exit code {code}"
    if "Traceback" in errors:
        return "a traceback"
    if code == 2 and not lines[-1].strip():
        return "exit code 2 without a word"
    if code == 2 and max(map(len, lines)) > _LONGEST_LINE:
        return f"an error of {max(map(len, lines))} characters"
    if code == 2 and "\x1b" in lines[-1]:
        return "an escape sequence in an error"
    return ""


def _describe(case: Case) -> str:
    words = " ".join(repr(word)[:120] for word in case.arguments)
    return "; ".join((f"untold {words}", *case.done))


def _tell(report: TextIO, **record: object) -> None:
    report.write(json.dumps(record) + "\n")
    report.flush()
