"""Processes that share a run; what several do together is in the end-to-end tests."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from ranks import run_ranks
from untold.errors import UntoldError
from untold.training import distributed
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


def meet(store, ranks, world_size, seconds=20.0):
    """What each of these ranks returns or raises, as processes of one start that share a store."""

    def agree(rank):
        time.sleep(random.Random(rank).random() / 20)  # they come in no order
        try:
            return distributed._agree_on_start(store, rank, world_size, timedelta(seconds=seconds))
        except RuntimeError as error:
            return error

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(agree, ranks))


def test_every_start_of_a_job_agrees_on_a_name_of_its_own():
    """The store of torchrun outlives the processes, so that it holds what dead ones have left."""
    store, names = dist.HashStore(), set()
    for _ in range(5):
        (name,) = set(meet(store, range(4), 4))
        assert isinstance(name, str)
        names.add(name)
    assert len(names) == 5


@pytest.mark.parametrize("came", [(0,), (1, 2), (0, 2)])
def test_a_start_that_some_did_not_live_to_see_spoils_no_later_one(came):
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.1))
    assert all(isinstance(error, RuntimeError) for error in meet(store, came, 3, seconds=0.1))
    store.set_timeout(timedelta(seconds=20))
    (name,) = set(meet(store, range(3), 3))
    assert isinstance(name, str)
    (another,) = set(meet(store, range(3), 3))
    assert another != name
