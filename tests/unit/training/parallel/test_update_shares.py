"""The batches of an update, shared by any number of processes."""

import re

import pytest
import torch
from safetensors.torch import load_file

from jobs import newest
from ranks import run_ranks
from toys import records
from untold.training.update_shares import advise_shares


@pytest.mark.parametrize("batches", [1, 2, 5, 24, 25])
@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_the_advice_is_one_that_leaves_nobody_waiting(batches, processes):
    advice = advise_shares(batches, 4096, processes)
    if batches % processes == 0:
        assert advice is None
        return
    assert f"= {batches} over {processes} processes" in advice
    if batches > processes:
        fewer, more = map(int, re.search(r"; (\d+) or (\d+) batches", advice).groups())
        assert fewer < batches < more
    else:
        more, tokens = map(int, re.search(r"accumulate=(\d+) .*tokens=(\d+)", advice).groups())
        fewer = more
        assert more * tokens == pytest.approx(batches * 4096, rel=0.01)
    assert advise_shares(fewer, 4096, processes) is advise_shares(more, 4096, processes) is None


def test_three_processes_make_the_updates_of_one(alone, shared_run, tmp_path):
    """An update has two batches, so that one of them is always idle.

    The first moments of Adam are sums of gradients. Weights are no measure: Adam makes a large step
    of a gradient that is zero but for rounding, as that of a key's bias is.
    """
    shared = tmp_path / "shared"
    assert run_ranks(lambda rank: shared_run(shared), tmp_path, size=3) == ["", "", ""]
    for found, expected in zip(records(shared), records(alone), strict=True):
        assert (found["kind"], found["step"]) == (expected["kind"], expected["step"])
        for name in ("loss", "nll", "bow", "counterfactual", "norm"):
            assert found[name] == pytest.approx(expected[name], rel=1e-5)
    ours, theirs = (load_file(newest(run) / "optimizer.safetensors") for run in (shared, alone))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if not name.startswith("exp_avg_sq/"):
            torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-6)
    assert "over 3 processes" in (shared / "said.txt").read_text()
