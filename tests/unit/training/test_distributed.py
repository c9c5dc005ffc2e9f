"""Processes that share a run; what several do together is in the end-to-end tests."""

import pytest
import torch
from torch import nn

from untold.errors import UntoldError
from untold.training.distributed import ProcessGroup


def test_one_process_is_a_group_of_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    group = ProcessGroup.init("cpu", 1.0)
    assert (group.rank, group.world_size, group.is_main) == (0, 1, True)
    assert group.all_reduce_sum([1.5, 2.0], torch.device("cpu")) == [1.5, 2.0]
    assert group.broadcast({"a": 1}) == {"a": 1}
    layer = nn.Linear(2, 3)
    group.all_reduce_gradients(layer.parameters())
    assert layer.weight.grad is None, "nothing to add up, so nothing is made"
    with group.main_process_first():
        group.barrier()
    group.destroy()


def test_batches_that_cannot_be_shared_evenly_are_refused_before_the_group_is_made(
    monkeypatch, start, tmp_path
):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UntoldError, match=r"train\.accumulate = 2 .* 3 processes: .*multiple of 3"):
        start(tmp_path)


def test_an_absent_peer_is_an_error_that_says_so(monkeypatch):
    """Rank 1 of 2 whose partner never comes: the timeout of the configuration ends it."""
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("MASTER_ADDR", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(UntoldError, match=r"died or stayed silent for train\.timeout_minutes"):
        ProcessGroup.init("cpu", 0.01)
