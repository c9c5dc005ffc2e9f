"""Processes that share a run; what several do together is in the end-to-end tests."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from untold.errors import UntoldError
from untold.training import distributed
from untold.training.distributed import ProcessGroup


def test_one_process_is_a_group_of_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    group = ProcessGroup.init("cpu", 1.0)
    assert (group.rank, group.world_size, group.is_main) == (0, 1, True)
    assert group.all_reduce_sum([1.5, 2.0], torch.device("cpu")) == [1.5, 2.0]
    assert group.broadcast({"a": 1}) == {"a": 1}
    with group.main_process_first():
        group.barrier()
    group.destroy()


def test_an_absent_peer_is_an_error_that_says_so(monkeypatch):
    """Rank 1 of 2 whose partner never comes: the timeout of the configuration ends it."""
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("MASTER_ADDR", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(UntoldError, match=r"died or stayed silent for train\.timeout_minutes"):
        ProcessGroup.init("cpu", 0.01)


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
