"""Models whose weights and optimizer are shared by the processes of a run."""

import pytest
import torch
import torch.distributed.fsdp  # here, so that forked processes have it at once
from safetensors.torch import load_file

from jobs import newest
from ranks import run_ranks
from toys import records, toy_config
from untold.errors import UntoldError
from untold.files import verify_directory
from untold.storage.model_directory import load_model
from untold.training.losses.loss import delete_spans
from untold.training.run import RunOptions, train
from untold.training.sharding import check_sharding

SHARED = {"shard": True, "auxiliary_start": 0, "accumulate": 4, "batch_tokens": 80}


def contents(directory):
    """Weights and optimizer of a checkpoint."""
    files = ("model.safetensors", "optimizer.safetensors")
    return {f"{name}/{key}": x for name in files for key, x in load_file(directory / name).items()}


def test_two_processes_that_share_a_model_train_as_one_does_and_go_on_bit_for_bit(
    shared_run, tmp_path, monkeypatch
):
    single, parted, whole = tmp_path / "single", tmp_path / "parted", tmp_path / "whole"
    with monkeypatch.context() as patch:  # one process reads sentences again whenever two must
        patch.setattr(
            "untold.training.losses.loss.delete_spans",
            lambda *given, **_: delete_spans(*given, at_least_one=True),
        )
        shared_run(single, **SHARED | {"shard": False})
    assert run_ranks(lambda rank: shared_run(whole, **SHARED), tmp_path) == ["", ""]
    for found, expected in zip(records(whole), records(single), strict=True):
        for name in ("step", "loss", "nll", "bow", "counterfactual", "cut_links", "norm"):
            assert found[name] == pytest.approx(expected[name], rel=1e-5)
    verify_directory(newest(whole))
    ours, theirs = (dict(load_model(run).model.named_parameters()) for run in (whole, single))
    assert ours.keys() == theirs.keys()
    assert all(ours[name].shape == theirs[name].shape for name in theirs)
    # FSDP gives every parameter a gradient: the optimizer may remember more, and nothing less.
    assert contents(newest(whole)).keys() >= contents(newest(single)).keys()

    assert run_ranks(lambda rank: shared_run(parted, **SHARED, steps=3), tmp_path) == ["", ""]
    assert run_ranks(lambda rank: shared_run(parted, **SHARED), tmp_path) == ["", ""]
    found, expected = contents(newest(parted)), contents(newest(whole))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


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
        ({"sequence": {"kind": "mrt", "mix": 0.5}}, r'sequence\.kind = "mrt" .* train\.shard'),
        ({"accumulate": 3}, r"train\.accumulate = 3 .* set it to 2"),
    ],
)
def test_what_would_part_the_ways_of_processes_is_refused(corpus, settings, message):
    model = {"separator": {"kind": "gdr"}}
    with pytest.raises(UntoldError, match=message):
        check_sharding(toy_config(corpus, model=model, train={"shard": True} | settings), 2)
    check_sharding(toy_config(corpus, model=model, train={"accumulate": 2}), 2)
