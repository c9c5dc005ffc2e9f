"""Trains an aligner in a process of its own, so that a signal can stop it at any time.

An iteration of thot takes seconds or minutes, and all the while no other line of Python runs in its
process: neither the handler of a signal nor a progress bar.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from untold.alignment.aligners import Aligner, load_aligner, train_aligner
from untold.config.data import AlignerConfig
from untold.errors import UntoldError
from untold.files import remove_litter

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def train_in_process(
    texts: tuple[Sequence[str], Sequence[str]],
    config: AlignerConfig,
    path: Path,
    report: Callable[[int, int], object],
) -> Aligner:
    """Trains an aligner on two lists of lines, saves it at `path` and loads it from there.

    `report` is called with the number of iterations that are done and of all.
    """
    job: dict[str, object] = {"config": config.model_dump(), "path": str(path.absolute())}
    command = [sys.executable, "-P", "-m", __name__]  # -P: runs nothing of the current directory
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
    with process:
        try:
            _send(process, job, texts)
            _follow(process, report)
        except BaseException:
            process.kill()
            process.wait()
            remove_litter(path.absolute().parent)
            raise
    if process.returncode == -signal.SIGKILL:
        raise MemoryError("the system has killed the training of the aligner")
    if process.returncode:
        raise RuntimeError(f"the training of the aligner ended with code {process.returncode}")
    return load_aligner(path)


def _send(
    process: "subprocess.Popen[bytes]",
    job: dict[str, object],
    texts: tuple[Sequence[str], Sequence[str]],
) -> None:
    """Gives the other process its job, line by line, so that a signal can come in between."""
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as stream:  # it may have died: its code tells
        for line in (job, *zip(*texts, strict=True)):
            stream.write(json.dumps(line).encode() + b"\n")


def _follow(process: "subprocess.Popen[bytes]", report: Callable[[int, int], object]) -> None:
    """Passes on what the other process reports: its progress, or an error."""
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if "memory" in message:
            raise MemoryError(message["memory"])
        if "mistake" in message:
            raise UntoldError(message["mistake"])
        if "traceback" in message:
            raise RuntimeError(f"in the training of the aligner: {message['traceback']}")
        report(message["done"], message["total"])


def _main() -> None:
    """Is the other process: takes the job from standard input and reports to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which kills us
    _die_with_parent()
    try:
        job, *pairs = (json.loads(line) for line in sys.stdin.buffer)
        config = AlignerConfig.model_validate(job["config"])
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        train_aligner(sources, targets, config, _report).save(Path(job["path"]))
    except BrokenPipeError:  # the first process is gone
        os._exit(1)
    except MemoryError as error:
        _tell(memory=str(error))
    except UntoldError as error:
        _tell(mistake=str(error))
    except Exception:
        _tell(traceback=traceback.format_exc())


def _die_with_parent() -> None:
    """Asks Linux to end this process with the first one; elsewhere its next report fails."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _report(done: int, total: int) -> None:
    _tell(done=done, total=total)


def _tell(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    _main()
