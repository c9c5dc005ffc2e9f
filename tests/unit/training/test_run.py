"""Whole runs in this process: resumed bit for bit, refused when changed, started from others."""

import json
import shutil

import pytest
import torch

from toys import checkpoint_contents, lasting_records, records, toy_config, weights, write_corpus
from untold.errors import UntoldError
from untold.files import new_directory
from untold.storage.averaging import average_models, last_checkpoints
from untold.storage.model_directory import load_model
from untold.training.run import RunOptions, train

BPE_DROPOUT = {"size": 40, "dropout": 0.2}


def at(run, step):
    return run / "checkpoints" / f"step-{step:08d}"


def differing(one, other):
    """The parts of two checkpoints that are not the same."""
    found, expected = checkpoint_contents(one), checkpoint_contents(other)
    assert found.keys() == expected.keys()
    return {name for name in found if found[name] != expected[name]}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """Twelve updates in one go: dropout, accumulation, BPE-dropout and validations all on."""
    root = write_corpus(tmp_path_factory.mktemp("corpus"))
    out = tmp_path_factory.mktemp("straight")
    train(toy_config(root, tokenizer=BPE_DROPOUT), RunOptions(out))
    return root, out


@pytest.mark.parametrize("stops", [(2,), (4,), (3, 6, 8), (8, 10), (5, 12)])
def test_a_run_in_pieces_is_one_in_one_go_bit_for_bit(straight, start, tmp_path, stops):
    root, whole = straight
    for stop in stops:
        result, _ = start(tmp_path, root=root, stop_after=stop, tokenizer=BPE_DROPOUT)
        # It stops after the next update; a validation that is due at once is put off instead.
        last = stop if stop in (5, 10, 12) else stop + 1
        assert (result.signal, result.progress.step) == (15, last)
        assert result.progress.validated < last
    result, lines = start(tmp_path, root=root, tokenizer=BPE_DROPOUT)
    assert any(f"at step {last}" in line for line in lines)
    assert (result.signal, result.progress.step) == (0, 12)
    for step in (8, 12):
        assert differing(at(tmp_path, step), at(whole, step)) == set()
    best = next((whole / "best").iterdir()).name
    assert [path.name for path in (tmp_path / "best").iterdir()] == [best]
    figures = [
        [(r["step"], r["loss"], r["bleu"]) for r in records(run, "valid")]
        for run in (tmp_path, whole)
    ]
    assert figures[0] == figures[1]


def test_some_of_those_stops_were_in_the_middle_of_an_epoch(start, straight, tmp_path):
    result, _ = start(tmp_path, root=straight[0], stop_after=3, tokenizer=BPE_DROPOUT)
    assert result.progress.batch > 0


@pytest.mark.parametrize(
    "change", [{"train": {"seed": 2}}, {"tokenizer": BPE_DROPOUT | {"dropout": 0.21}}]
)
def test_the_comparison_sees_a_difference(straight, start, tmp_path, change):
    """The control: another seed, or a hardly different BPE-dropout, is not the same run."""
    start(tmp_path, root=straight[0], **{"tokenizer": BPE_DROPOUT} | change)
    found = differing(at(tmp_path, 12), at(straight[1], 12))
    assert {"model.safetensors", "optimizer.safetensors"} <= found


def test_validation_does_not_change_training(straight, start, tmp_path):
    start(tmp_path, root=straight[0], tokenizer=BPE_DROPOUT, train={"validate_every": 1})
    names = {"model.safetensors", "optimizer.safetensors"}
    assert not differing(at(tmp_path, 12), at(straight[1], 12)) & names


def test_metrics_of_a_resumed_run_are_those_of_one_run(start, tmp_path):
    start(tmp_path, stop_after=6, train={"log_every": 1})
    shutil.rmtree(at(tmp_path, 7))  # as if the machine had died after its last save
    start(tmp_path, train={"log_every": 1})
    assert [r["step"] for r in records(tmp_path, "train")] == list(range(1, 13))
    assert [r["step"] for r in records(tmp_path, "valid")] == [5, 10, 12]
    for record in records(tmp_path, "train"):
        assert record.keys() == {
            *("kind", "step", "time", "loss", "nll", "norm", "tokens_per_second", "rate", "epoch")
        }


UNEVEN = {"log_every": 7, "save_every": 4, "validate_every": 10, "steps": 24}


@pytest.fixture(scope="module")
def unevenly_logged(tmp_path_factory):
    """A run whose checkpoints fall between its log lines."""
    root = write_corpus(tmp_path_factory.mktemp("corpus"))
    out = tmp_path_factory.mktemp("unevenly")
    train(toy_config(root, train=UNEVEN), RunOptions(out))
    return root, out


@pytest.mark.parametrize(
    ("stops", "lost"), [((2,), 0), ((6,), 0), ((9, 17), 0), ((10,), 1), ((19, 20), 2)]
)
def test_a_log_line_averages_the_same_updates_whenever_the_run_was_stopped(
    unevenly_logged, start, tmp_path, stops, lost
):
    """`lost` checkpoints are removed, as if the machine had died before they were written."""
    root, whole = unevenly_logged
    for stop in stops:
        start(tmp_path, root=root, stop_after=stop, train=UNEVEN)
    for path in last_checkpoints(tmp_path, lost) if lost else []:
        shutil.rmtree(path)
    start(tmp_path, root=root, train=UNEVEN)
    assert [r["step"] for r in records(tmp_path, "train")] == [7, 14, 21]
    assert lasting_records(tmp_path) == lasting_records(whole)


def test_a_checkpoint_that_has_no_sums_can_still_be_gone_on_with(unevenly_logged, start, tmp_path):
    """The control, too: without the sums of a checkpoint the next line is another."""
    root, whole = unevenly_logged
    start(tmp_path, root=root, stop_after=9, train=UNEVEN)
    forget_sums(at(tmp_path, 10))
    start(tmp_path, root=root, train=UNEVEN)
    found, expected = lasting_records(tmp_path), lasting_records(whole)
    assert [k for k in range(len(found)) if found[k] != expected[k]] == [2]
    assert (found[2]["kind"], found[2]["step"]) == ("train", 14)


def forget_sums(checkpoint):
    """Makes of a checkpoint one of a version that did not know them."""
    shutil.copytree(checkpoint, checkpoint.parent / "copy")
    document = json.loads((checkpoint / "progress.json").read_text())
    del document["progress"]["unlogged"]
    with new_directory(checkpoint, replace=True) as directory:
        for path in (checkpoint.parent / "copy").glob("[!MP]*"):
            shutil.copy(path, directory / path.name)
        (directory / "progress.json").write_text(json.dumps(document))
    shutil.rmtree(checkpoint.parent / "copy")


def test_a_finished_run_goes_on_when_there_is_more_to_do(straight, start, tmp_path):
    """Free settings may change: the first four of twelve updates are the same four."""
    steps = {"steps": 4, "validate_every": 5, "save_every": 1, "keep": 9}
    start(tmp_path, root=straight[0], tokenizer=BPE_DROPOUT, train=steps)
    start(tmp_path, root=straight[0], tokenizer=BPE_DROPOUT)
    names = {"model.safetensors", "optimizer.safetensors"}
    assert not differing(at(tmp_path, 12), at(straight[1], 12)) & names


def test_a_damaged_checkpoint_is_passed_over_to_the_same_end(straight, start, tmp_path):
    root, whole = straight
    start(tmp_path, root=root, tokenizer=BPE_DROPOUT, stop_after=9)
    path = at(tmp_path, 10) / "optimizer.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)
    _, lines = start(tmp_path, root=root, tokenizer=BPE_DROPOUT)
    (warning,) = [line for line in lines if "passing over" in line]
    assert "step-00000010" in warning and "optimizer.safetensors" in warning
    assert any("going on" in line and "at step 8" in line for line in lines)
    assert differing(at(tmp_path, 12), at(whole, 12)) == set()


def test_two_trainers_cannot_share_a_directory(start, tmp_path):
    from untold.files import lock_directory

    with lock_directory(tmp_path), pytest.raises(UntoldError, match="in use by process"):
        start(tmp_path)
    assert start(tmp_path, train={"steps": 2})[0].progress.step == 2


def test_best_and_last_are_both_there(straight):
    _, run = straight
    scores = {r["step"]: r["bleu"] for r in records(run, "valid")}
    best = max(scores, key=lambda step: (scores[step], -step))
    assert [path.name for path in (run / "best").iterdir()] == [f"step-{best:08d}"]
    progress = json.loads((at(run, 12) / "progress.json").read_text())["progress"]
    assert (progress["best"], progress["best_step"]) == (scores[best], best)
    loaded = load_model(run)
    stored = weights(run / "best" / f"step-{best:08d}")
    assert torch.equal(
        loaded.model.backbone.decoder_norm.weight, stored["backbone.decoder_norm.weight"]
    )
    assert at(run, 12).exists()


def test_an_average_is_the_mean(straight):
    _, run = straight
    paths = last_checkpoints(run, 3)
    assert [path.name for path in paths] == ["step-00000004", "step-00000008", "step-00000012"]
    averaged = dict(average_models(paths).model.named_parameters())
    stored = [weights(path) for path in paths]
    for name, parameter in averaged.items():
        mean = torch.stack([tensors[name].double() for tensors in stored]).mean(0)
        torch.testing.assert_close(parameter.detach(), mean.float(), rtol=0, atol=1e-7)
    assert not torch.equal(averaged[name], stored[-1][name])
    with pytest.raises(UntoldError, match="3 checkpoints, not 4: ask for fewer"):
        last_checkpoints(run, 4)


def test_a_model_can_start_from_another(straight, start, tmp_path):
    root, other = straight
    sections = {"model": {"encoder_layers": 2}, "train": {"steps": 4, "save_every": 2}}
    result, lines = start(tmp_path, root=root, init=other, **sections)
    (line,) = [line for line in lines if "starting from" in line]
    assert "tensors taken over; 12 new (backbone.encoder 12); " in line
    assert (at(tmp_path, 4) / "joint.model").read_bytes() == (
        at(other, 12) / "joint.model"
    ).read_bytes()
    assert result.progress.step == 4
    # Going on needs the other model no more, nor the option that named it.
    sections["train"]["steps"] = 6
    result, lines = start(tmp_path, root=root, **sections)
    assert result.progress.step == 6
    assert not any("starting from" in line for line in lines)


def test_a_warm_start_begins_with_the_other_s_weights(straight, start, tmp_path):
    """With a rate of next to nothing the first update leaves them where they were."""
    root, other = straight
    rate = {"steps": 1, "learning_rate": 1e-12, "warmup": 0}
    start(tmp_path, root=root, init=at(other, 12), train=rate)
    found, expected = weights(at(tmp_path, 1)), weights(at(other, 12))
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=1e-6)


def test_a_corpus_without_validation_trains_too(start, corpus, tmp_path):
    assert toy_config(corpus).data.valid is not None
    result, _ = start(tmp_path, data={"valid": None})
    assert (result.progress.step, result.progress.best) == (12, None)
    assert records(tmp_path, "valid") == []
    assert load_model(tmp_path).config.data.valid is None


def test_training_needs_data(start, tmp_path):
    with pytest.raises(UntoldError, match=r"data\.train is empty"):
        start(tmp_path, data={"train": []})


def test_a_gpu_that_is_not_there_is_an_error(start, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UntoldError, match="torch sees no GPU"):
        start(tmp_path, train={"device": "cuda"})


def test_a_search_that_needs_past_and_future_is_refused_before_anything_is_written(start, tmp_path):
    decode = {"coverage_penalty": 0.3, "coverage_source": "past"}
    with pytest.raises(UntoldError, match=r"decode\.[a-z_]+ = .* needs a model with past and fut"):
        start(tmp_path / "run", decode=decode)
    assert not (tmp_path / "run").exists()
    start(tmp_path / "run", decode=decode, model={"separator": {"kind": "gdr"}})
    assert load_model(tmp_path / "run").model.past_future is not None
