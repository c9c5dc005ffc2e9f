"""Processes that share a run; what several do together is in the end-to-end tests."""

import os

import pytest
import torch

from ranks import run_ranks
from untold.errors import UntoldError
from untold.training.distributed import ProcessGroup


def test_one_process_is_a_group_of_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    group = ProcessGroup.init("cpu")
    assert (group.rank, group.world_size, group.is_main) == (0, 1, True)
    assert group.all_reduce_sum([1.5, 2.0], torch.device("cpu")) == [1.5, 2.0]
    assert group.broadcast({"a": 1}) == {"a": 1}
    with group.main_process_first():
        group.barrier()
    group.destroy()


def test_the_gradients_of_all_processes_are_added_and_one_that_nobody_has_stays_away(tmp_path):
    """Rank 0 has gradients of a and b, rank 1 of b alone; nobody has one of c."""

    def add(rank):
        group = ProcessGroup.init("cpu")
        a, b, c = (torch.nn.Parameter(torch.zeros(size)) for size in (2, 3, 1))
        frozen = torch.nn.Parameter(torch.zeros(1), requires_grad=False)
        if rank == 0:
            a.grad = torch.tensor([1.0, 2.0])
        b.grad = torch.full((3,), 1.0 + rank)
        group.sum_gradients([a, b, c, frozen])
        assert a.grad.tolist() == [1.0, 2.0]
        assert b.grad.tolist() == [3.0, 3.0, 3.0]
        assert c.grad is None and frozen.grad is None
        group.destroy()

    assert run_ranks(add, tmp_path) == ["", ""]


def test_a_peer_that_dies_is_an_error_that_says_so(tmp_path):
    def die_or_wait(rank):
        group = ProcessGroup.init("cpu")
        if rank == 1:
            os._exit(3)
        with pytest.raises(UntoldError, match="another process of this run has died"):
            group.barrier()
            group.barrier()

    assert run_ranks(die_or_wait, tmp_path)[0] == ""
