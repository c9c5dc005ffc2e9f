"""A process of a run that has died is named by all others within seconds."""

import os
import signal
import time

import pytest
import torch

from ranks import run_ranks, standard_error
from untold.errors import UntoldError
from untold.training import peer_watch
from untold.training.distributed import ProcessGroup

CPU = torch.device("cpu")
SECONDS = 10  # on a busy machine; the process group's own timeout is 30 minutes


def ranks(tmp_path, work, size=3):
    """What became of each process of a group, and how long it took."""

    def run(rank):
        group = ProcessGroup.init("cpu", 30.0)
        try:
            work(group)
        finally:
            group.destroy()

    began = time.monotonic()
    return run_ranks(run, tmp_path, size), time.monotonic() - began


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_process_is_named_by_those_who_wait_for_it(tmp_path, victim):
    def work(group):
        group.barrier()
        if group.rank == victim:
            (tmp_path / "pid").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            group.all_reduce_sum([1.0], CPU)

    found, seconds = ranks(tmp_path, work)
    assert seconds < SECONDS
    assert found.pop(victim) == "SIGKILL"
    pid = (tmp_path / "pid").read_text()
    for line in found:
        assert line.startswith(f"UntoldError: process {victim} of the run (pid {pid} on ")
        assert " has died; start the job again: " in line and "\n" not in line


def test_one_who_is_busy_elsewhere_is_ended_with_a_line(tmp_path, monkeypatch):
    """As a main process that validates for an hour, or one inside NCCL."""
    monkeypatch.setattr(peer_watch, "_GRACE", 0.3)

    def work(group):
        group.barrier()
        if group.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)

    found, seconds = ranks(tmp_path, work)
    assert found == ["exit code 2", "SIGKILL", "exit code 2"]
    assert seconds < SECONDS
    for rank in (0, 2):
        (line,) = standard_error(tmp_path, rank).split("\n")[:-1]
        assert line.startswith("untold: process 1 of the run (pid ")


def test_an_error_of_one_process_ends_the_others_and_an_orderly_end_nobody(tmp_path):
    def fail(group):
        group.barrier()
        if group.rank == 0:
            raise UntoldError("its own message")
        group.barrier()

    found, seconds = ranks(tmp_path / "fail", fail)
    assert seconds < SECONDS
    assert found[0] == "UntoldError: its own message"
    assert all("process 0 of the run" in line for line in found[1:])
    assert all("ended with an error, which its own message tells" in line for line in found[1:])

    def end_late(group):
        group.barrier()
        if group.rank == 2:
            time.sleep(1)  # the others have long gone

    assert ranks(tmp_path / "end", end_late)[0] == ["", "", ""]
    assert all(not standard_error(tmp_path / "end", rank) for rank in range(3))
