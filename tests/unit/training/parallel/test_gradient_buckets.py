"""Gradients that are summed in buckets: overlap, accumulation, frozen and unused parameters."""

import shutil
from functools import partial

import pytest
import torch
from torch import nn

from jobs import newest
from ranks import run_ranks
from toys import checkpoint_contents, lasting_records
from untold.training import trainer
from untold.training.distributed import GradientBuckets, ProcessGroup

SMALL = 700  # bytes of a bucket: the toys have dozens


class Twins(ProcessGroup):
    """Two processes that do the same: the sum is twice its own. It notes what it is asked for."""

    def all_reduce_async(self, tensor):
        log.append(("sent", len(tensor)))
        tensor *= 2

    def wait(self, work):
        log.append(("waited", 0))


log: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def empty_log():
    log.clear()


def layers(count=4, width=5):
    torch.manual_seed(3)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(count)))


def test_buckets_are_sent_while_the_backward_pass_computes_other_gradients():
    model, inputs = layers(), torch.randn(3, 5)
    buckets = GradientBuckets(Twins(0, 2), model.parameters(), bucket_bytes=4 * 30)
    for layer in model:
        layer.weight.register_post_accumulate_grad_hook(lambda p: log.append(("made", len(log))))
    total = model(inputs).sum()
    buckets.announce([[total]])
    total.backward()
    kinds = [kind for kind, _ in log]
    assert kinds.count("sent") == buckets.sent == 4
    assert kinds.index("sent") < len(kinds) - 1 - kinds[::-1].index("made"), (
        "a gradient comes later"
    )
    buckets.finish()
    assert log[-4:] == [("waited", 0)] * 4
    late = layers()  # the control: what is not announced waits for the end
    buckets = GradientBuckets(Twins(0, 2), late.parameters(), bucket_bytes=4 * 30)
    late(inputs).sum().backward()
    assert buckets.sent == 0
    buckets.finish()
    for one, other in zip(model.parameters(), late.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_a_gradient_after_its_bucket_was_sent_is_an_error():
    model = layers()
    buckets = GradientBuckets(Twins(0, 2), model.parameters(), SMALL)
    first, second = model(torch.ones(1, 5)).sum(), model(torch.zeros(1, 5)).sum()
    buckets.announce([[first]])
    first.backward()
    with pytest.raises(RuntimeError, match=r"had not announced"):
        second.backward()


def passes(model, rank):
    """Backward passes of one process: tensors to begin from, each list of a pass.

    The last layer is never used, the third by rank 1 alone, the first twice, in two passes.
    """
    inputs = torch.linspace(-1, 1, 15).view(3, 5) * (rank + 1)
    hidden = torch.tanh(model[0](inputs))
    used = hidden if rank == 0 else model[2](hidden)
    return [[model[1](used).square().sum()], [model[0](inputs + 1).sum()]]


def run_passes(model, rank, buckets=None):
    """Two batches; the second one is announced."""
    for is_last in (False, True):
        totals = passes(model, rank)
        if is_last and buckets is not None:
            buckets.announce(totals)
        for (total,) in totals:
            total.backward()


def test_sums_are_those_of_one_process_with_frozen_unused_and_reused_parameters(tmp_path):
    alone = layers()
    alone[0].bias.requires_grad_(False)
    for rank in (0, 1):
        run_passes(alone, rank)

    def work(rank):
        torch.set_num_threads(1)
        group = ProcessGroup.init("cpu", 1.0)
        model = layers()
        model[0].bias.requires_grad_(False)
        buckets = GradientBuckets(group, model.parameters(), bucket_bytes=4 * 30)
        for _ in range(2):  # nothing is left over from one update to the next
            model.zero_grad(set_to_none=True)
            if rank < 2:  # rank 2 has no batch
                run_passes(model, rank, buckets)
            buckets.finish()
            for one, other in zip(model.parameters(), alone.parameters(), strict=True):
                assert (one.grad is None) == (other.grad is None)
                if one.grad is not None:
                    torch.testing.assert_close(one.grad, other.grad)
        group.destroy()

    assert run_ranks(work, tmp_path, size=3) == ["", "", ""]
    assert alone[3].weight.grad is None and alone[2].weight.grad is not None


@pytest.mark.usefixtures("alone")
def test_two_processes_go_on_bit_for_bit_and_another_number_is_told(
    shared_run, tmp_path, monkeypatch
):
    """Every bucket of the toy holds a few parameters."""
    monkeypatch.setattr(trainer, "GradientBuckets", partial(GradientBuckets, bucket_bytes=SMALL))
    parted, whole, fewer = tmp_path / "parted", tmp_path / "whole", tmp_path / "fewer"
    assert run_ranks(lambda rank: shared_run(parted, steps=3), tmp_path) == ["", ""]
    shutil.copytree(parted, fewer)
    assert run_ranks(lambda rank: shared_run(parted), tmp_path) == ["", ""]
    assert run_ranks(lambda rank: shared_run(whole), tmp_path) == ["", ""]
    assert checkpoint_contents(newest(parted)) == checkpoint_contents(newest(whole))
    assert lasting_records(parted) == lasting_records(whole)
    assert "changed since" not in (parted / "said.txt").read_text()
    shared_run(fewer)
    said = (fewer / "said.txt").read_text()
    assert "processes: 2 -> 1" in said and "as many processes as before (2)" in said
