"""Checkpoints: whole, verified, finite, and only as many as are wanted."""

import itertools
import json
import os
import signal
import time

import pytest
import torch

from toys import compute_losses, fill, toy_batch, toy_config, toy_tokenizers, weights
from untold.errors import UntoldError
from untold.files import new_directory, remove_litter
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, find_model
from untold.training.checkpoint import Checkpoints, optimizer_tensors, restore_optimizer
from untold.training.progress import Progress
from untold.training.trainer import make_optimizer

FACTS = {"config": {"train": {"seed": 1}}}


@pytest.fixture
def trained(corpus):
    config = toy_config(corpus)
    tokenizers = toy_tokenizers(corpus, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    return TrainedModel(fill(build_model(config.model, sizes, shared=True)), config, tokenizers)


@pytest.fixture
def optimizer(trained):
    """Adam after two updates, so that it has something to remember."""
    optimizer = make_optimizer(trained)
    for _ in range(2):
        optimizer.zero_grad()
        compute_losses(
            trained.model, toy_batch([(4, 6), (1, 2)]), trained.config.train, 1
        ).total.backward()
        optimizer.step()
    return optimizer


@pytest.fixture
def save(trained, optimizer, tmp_path):
    def save(step, keep=9, **standing):
        progress = Progress(step=step, **standing)
        memory = optimizer_tensors(trained.model, optimizer)
        Checkpoints(tmp_path, keep).save(trained, memory, FACTS, progress)
        return tmp_path / "checkpoints" / f"step-{step:08d}"

    return save


def steps(run, kind="checkpoints"):
    return sorted(int(path.name.removeprefix("step-")) for path in (run / kind).glob("step-*"))


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_all_of_it_comes_back(save, trained, optimizer, tmp_path, caplog):
    save(7, epoch=2, batch=3, tokens=99, best=1.5, best_step=4, stale=1)
    checkpoint = Checkpoints(tmp_path, 9).latest()
    assert (checkpoint.progress.step, checkpoint.progress.batch) == (7, 3)
    assert checkpoint.progress.best == 1.5
    assert (checkpoint.facts, caplog.messages) == (FACTS, [])
    fresh = make_optimizer(trained)
    restore_optimizer(checkpoint.directory, trained.model, fresh)
    for name, parameter in trained.model.named_parameters():
        assert fresh.state[parameter].keys() == {"step", "exp_avg", "exp_avg_sq"}
        for key, value in optimizer.state[parameter].items():
            assert torch.equal(fresh.state[parameter][key], value), name
    assert float(fresh.state[parameter]["step"]) == 2.0


def test_only_the_newest_are_kept(save, tmp_path):
    for step in (2, 4, 6, 8):
        save(step, keep=2)
    assert steps(tmp_path) == [6, 8]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json"])
def test_a_flipped_bit_is_named_and_the_one_before_is_used(save, tmp_path, name, caplog):
    save(4)
    flip_a_bit(save(8) / name)
    checkpoint = Checkpoints(tmp_path, 9).latest()
    assert checkpoint.progress.step == 4
    (line,) = caplog.messages
    assert "step-00000008" in line and name in line and "sha256" in line


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_over_by_itself(
    save, tmp_path, caplog
):
    assert Checkpoints(tmp_path / "elsewhere", 9).latest() is None
    flip_a_bit(save(8) / "model.safetensors")
    (save(9) / "MANIFEST.json").unlink()
    with pytest.raises(UntoldError, match="every checkpoint is damaged: remove them"):
        Checkpoints(tmp_path, 9).latest()
    assert ["step-00000009" in line for line in caplog.messages] == [True, False]


def test_a_damaged_one_is_written_anew_when_its_step_comes_again(save, tmp_path):
    save(4)
    flip_a_bit(save(8) / "model.safetensors")
    save(8)
    assert Checkpoints(tmp_path, 9).latest().progress.step == 8


def test_a_damaged_newer_one_does_not_push_out_whole_ones(save, tmp_path):
    save(4)
    flip_a_bit(save(8) / "model.safetensors")
    for step in (5, 6):
        save(step, keep=1)
    assert steps(tmp_path) == [6, 8]
    assert Checkpoints(tmp_path, 1).latest().progress.step == 6


def test_what_is_not_finite_is_never_written(save, trained, optimizer, tmp_path):
    save(4)
    parameter = trained.model.backbone.decoder_norm.weight
    moment = optimizer.state[parameter]["exp_avg_sq"]
    for tensor in (parameter.data, moment):
        before = float(tensor[3])
        tensor[3] = torch.nan if tensor is parameter.data else torch.inf
        with pytest.raises(
            UntoldError, match=r"step 8: .*decoder_norm\.weight is no longer finite"
        ):
            save(8)
        tensor[3] = before
    with pytest.raises(UntoldError, match="nothing was written"):
        parameter.data[3] = torch.nan
        Checkpoints(tmp_path, 9).save_best(trained, Progress(step=8))
    assert steps(tmp_path) == [4]
    assert not (tmp_path / "best").exists()


def test_the_best_model_replaces_the_one_before(trained, tmp_path):
    checkpoints = Checkpoints(tmp_path, 9)
    for step in (6, 9, 3):  # the run was resumed from before step 6
        trained.model.backbone.decoder_norm.weight.data.fill_(step)
        checkpoints.save_best(trained, Progress(step=step))
        assert steps(tmp_path, "best") == [step]
        assert find_model(tmp_path).name == f"step-{step:08d}"
        stored = weights(find_model(tmp_path))["backbone.decoder_norm.weight"]
        assert stored.unique().item() == step


def test_memory_that_does_not_fit_is_refused(save, corpus):
    directory = save(4)
    config = toy_config(corpus, model={"d_ffn": 5})
    other = build_model(config.model, (40, 40), shared=True)
    trained = TrainedModel(other, config, toy_tokenizers(corpus, config))
    with pytest.raises(UntoldError, match=r"optimizer\.safetensors has .*ffn"):
        restore_optimizer(directory, other, make_optimizer(trained))


def test_a_field_that_is_newer_than_a_checkpoint_has_its_default(save, tmp_path):
    directory = save(4, best=2.0)
    document = json.loads((directory / "progress.json").read_text())
    del document["progress"]["stale"]
    document["progress"] |= {"plateau": 1, "reductions": 2}  # of older versions
    contents = {path.name: path.read_bytes() for path in directory.iterdir()}
    del contents["MANIFEST.json"]
    contents["progress.json"] = json.dumps(document).encode()
    with new_directory(directory, replace=True) as older:
        for name, data in contents.items():
            (older / name).write_bytes(data)
    progress = Checkpoints(tmp_path, 9).latest().progress
    assert (progress.best, progress.stale) == (2.0, 0)


def kill_while(write, seconds):
    """Let a child process write again and again, and kill it after some time, without a warning."""
    child = os.fork()
    if child == 0:
        try:
            for number in itertools.count(1):
                write(number)
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_a_kill_while_writing_leaves_a_whole_checkpoint(save, tmp_path):
    save(1000)
    hits, attempt = 0, 0
    while hits < 3:
        attempt += 1
        assert attempt < 100, "the kills came while nothing was written"
        kill_while(
            lambda number, base=1000 * attempt: save(base + number, keep=2),
            0.03 + attempt % 12 / 300,
        )
        litter = [
            path for path in (tmp_path / "checkpoints").iterdir() if path.name.startswith(".tmp-")
        ]
        hits += bool(litter)
        found = Checkpoints(tmp_path, 2).latest()  # nothing is even damaged
        assert found.progress.step >= 1000
        remove_litter(tmp_path / "checkpoints")
        assert not any(path.name.startswith(".") for path in (tmp_path / "checkpoints").iterdir())


def test_a_naive_writer_would_have_lost_it(trained, tmp_path):
    """The control: the same kills, of a process that writes over its only file."""
    path, data = tmp_path / "weights", os.urandom(1 << 20)
    path.write_bytes(data)
    for attempt in range(1, 100):
        kill_while(lambda _: path.write_bytes(data), 0.02 + attempt % 12 / 997)
        if path.read_bytes() != data:
            return
    pytest.fail("the kills came while nothing was written")
