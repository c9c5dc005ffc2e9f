"""Processes that share a run; what several do together is in the end-to-end tests."""

import pytest
import torch
from torch import nn

from untold.errors import UntoldError
from untold.training.distributed import ProcessGroup


def test_one_process_is_a_world_of_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    world = ProcessGroup.join("cpu", 1.0)
    assert (world.rank, world.size, world.is_main) == (0, 1, True)
    assert world.total([1.5, 2.0], torch.device("cpu")) == [1.5, 2.0]
    assert world.share({"a": 1}) == {"a": 1}
    layer = nn.Linear(2, 3)
    world.all_reduce_gradients(layer.parameters())
    assert layer.weight.grad is None, "nothing to add up, so nothing is made"
    with world.main_process_first():
        world.wait()
    world.leave()


def test_batches_that_cannot_be_shared_evenly_are_refused_before_any_meeting(
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
        ProcessGroup.join("cpu", 0.01)
