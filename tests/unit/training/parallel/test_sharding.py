"""Models whose weights and optimizer are shared by the processes of a run."""

import shutil

import pytest
import torch
import torch.distributed.checkpoint
import torch.distributed.fsdp  # here, so that forked processes have it at once
from safetensors.torch import load_file

from jobs import newest
from ranks import run_ranks
from toys import records, toy_config
from untold.errors import UntoldError
from untold.files import verify_directory
from untold.storage.model_directory import load_model
from untold.training.checkpoint import OPTIMIZER_SHARDS
from untold.training.losses.loss import delete_spans
from untold.training.run import RunOptions, train
from untold.training.sharding import check_sharding

SHARED = {"shard": True, "counterfactual": 0.25, "accumulate": 3, "batch_tokens": 60}


def contents(directory):
    """Weights and all parts of the optimizer. Either process may write a number that both have."""
    files = [directory / "model.safetensors", *sorted((directory / OPTIMIZER_SHARDS).iterdir())]
    assert len(files) == 3, "each process has written its part"
    return {
        name if name.startswith("step/") else f"{file.name}: {name}": value
        for file in files
        for name, value in load_file(file).items()
    }


@pytest.mark.usefixtures("alone")
def test_two_processes_that_share_a_model_train_as_one_does_and_go_on_bit_for_bit(
    shared_run, tmp_path, monkeypatch
):
    """One of three batches leaves one process with a stand-in; some lose no span, and some do."""
    single, parted, whole = tmp_path / "single", tmp_path / "parted", tmp_path / "whole"
    with monkeypatch.context() as patch:
        cuts = []

        def noted(*given):
            cuts.append(delete_spans(*given))
            return cuts[-1]

        patch.setattr("untold.training.losses.loss.delete_spans", noted)
        shared_run(single, **SHARED | {"shard": False})
    assert {cut is None for cut in cuts} == {True, False}
    assert run_ranks(lambda rank: shared_run(whole, **SHARED), tmp_path) == ["", ""]
    for found, expected in zip(records(whole), records(single), strict=True):
        for name in ("step", "loss", "nll", "bow", "counterfactual", "cut_links", "norm"):
            assert found[name] == pytest.approx(expected[name], rel=1e-5)
    verify_directory(newest(whole))
    ours, theirs = (dict(load_model(run).model.named_parameters()) for run in (whole, single))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].shape == theirs[name].shape for name in theirs)

    assert run_ranks(lambda rank: shared_run(parted, **SHARED, steps=3), tmp_path) == ["", ""]
    alone = tmp_path / "one"
    shutil.copytree(parted, alone)
    assert run_ranks(lambda rank: shared_run(parted, **SHARED), tmp_path) == ["", ""]
    found, expected = contents(newest(parted)), contents(newest(whole))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    with pytest.raises(UntoldError, match=r"several with torchrun and train\.shard = true"):
        shared_run(alone, **SHARED)
    assert "train.shard has no effect" in (alone / "said.txt").read_text()


def test_the_validated_and_best_model_is_whole(corpus, tmp_path):
    config = toy_config(corpus, train={"shard": True, "steps": 2, "validate_every": 2})
    out, alone = tmp_path / "run", tmp_path / "alone"
    assert run_ranks(lambda rank: train(config, RunOptions(out)), tmp_path) == ["", ""]
    train(toy_config(corpus, train={"steps": 2, "validate_every": 2}), RunOptions(alone))
    (found,), (expected,) = records(out, "valid"), records(alone, "valid")
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    best = load_model(out / "best" / "step-00000002")
    last = load_model(newest(out))
    for one, other in zip(best.model.parameters(), last.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sequence": {"kind": "mrt", "mix": 0.5}},
            r'sequence\.kind = "mrt" .* train\.shard',
        ),
    ],
)
def test_what_would_part_the_ways_of_processes_is_refused(corpus, settings, message):
    model = {"separator": {"kind": "gdr"}}
    with pytest.raises(UntoldError, match=message):
        check_sharding(toy_config(corpus, model=model, train={"shard": True} | settings))
    check_sharding(toy_config(corpus, model=model, train=settings))
