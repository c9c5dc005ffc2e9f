"""Training jobs in processes of their own, which tests stop, kill and watch."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

PATIENCE = 240  # seconds: far more than anything here takes on an idle machine


def write_toml(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> Path:
    """Writes the sections of a configuration."""
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_as_toml(value)}" for key, value in values.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_as_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    return json.dumps(value)


@contextlib.contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`python -m` with these arguments, which do not outlive the test, nor do their workers."""
    command = [sys.executable, "-m", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "500"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        left = workers(process)  # each is in a session of its own
        for kill, number in ((os.killpg, process.pid), *((os.kill, pid) for pid in left.values())):
            with contextlib.suppress(ProcessLookupError):
                kill(number, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and all that was printed."""
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


def run(*arguments: object) -> tuple[int, str]:
    """Exit code and all that was printed by a process that nobody disturbs."""
    with running(*arguments) as process:
        return finish(process)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits until something holds while the process runs."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.stdout is not None
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def records_so_far(out: Path) -> int:
    """The number of lines that a run has logged."""
    with contextlib.suppress(FileNotFoundError):
        return (out / "metrics.jsonl").read_text().count("\n")
    return 0


def newest(out: Path) -> Path:
    """The last checkpoint of a run."""
    return sorted((out / "checkpoints").glob("step-*"))[-1]


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def torchrun(processes: int, *options: object) -> list[object]:
    """The arguments of `running` for a job of several processes on this machine."""
    place = ["--master-addr", "127.0.0.1", "--master-port", free_port()]
    launcher = ["torch.distributed.run", "--nproc-per-node", processes, *place]
    return [*launcher, *options, "-m", "untold"]


def workers(process: subprocess.Popen[str]) -> dict[int, int]:
    """The processes that torchrun started, by rank."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            variables = path.joinpath("environ").read_bytes().split(b"\0")
            ranks = [v[5:] for v in variables if v.startswith(b"RANK=")]
            if parent == process.pid and ranks:
                found[int(ranks[0])] = int(path.name)
    return found
