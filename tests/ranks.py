"""Several processes of one run, forked from the test, which need no time to start."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from jobs import free_port

PATIENCE = 240  # seconds: far more than anything here takes


def run_ranks(function: Callable[[int], None], directory: Path, size: int = 2) -> list[str]:
    """Calls `function(rank)` in `size` processes, as torchrun would start them.

    Returns what became of each: "" if it ended well, else the text of its exception, or the signal
    that killed it. What a process writes to standard error is in `directory`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    children = [_fork(function, directory, (rank, size, port)) for rank in range(size)]
    return [_wait(pid, directory / f"rank-{rank}.txt") for rank, pid in enumerate(children)]


def standard_error(directory: Path, rank: int) -> str:
    """All that a rank wrote to standard error."""
    return (directory / f"rank-{rank}.err").read_text()


def _fork(function: Callable[[int], None], directory: Path, place: tuple[int, int, int]) -> int:
    rank, size, port = place
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 1
    try:
        with open(directory / f"rank-{rank}.err", "w") as errors:
            os.dup2(errors.fileno(), 2)
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ.update(where, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
        function(rank)
        code = 0
    except BaseException as error:
        traceback.print_exc()
        (directory / f"rank-{rank}.txt").write_text(f"{type(error).__name__}: {error}")
    finally:
        sys.stderr.flush()
        os._exit(code)  # nothing of the test may run twice


def _wait(pid: int, file: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hung"
        time.sleep(0.01)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    if os.WEXITSTATUS(status) == 0:
        return ""
    return file.read_text() if file.exists() else f"exit code {os.WEXITSTATUS(status)}"
