"""Resuming a run: what may change between two starts, what is refused, what is no change."""

import shutil

import pytest

from toys import checkpoint_contents, write_corpus
from untold.errors import UntoldError
from untold.training import checkpoint as resume


def at(run, step):
    return run / "checkpoints" / f"step-{step:08d}"


def test_a_finished_run_has_nothing_left_to_do(start, tmp_path):
    start(tmp_path)
    before = checkpoint_contents(at(tmp_path, 12))
    result, _ = start(tmp_path)
    assert result.progress.step == 12
    assert checkpoint_contents(at(tmp_path, 12)) == before


@pytest.mark.parametrize(
    ("section", "change", "named"),
    [
        ("train", {"seed": 2}, "train.seed: 1 -> 2"),
        ("train", {"accumulate": 3}, "train.accumulate: 2 -> 3"),
        ("model", {"dropout": 0.3}, "model.dropout: 0.1 -> 0.3"),
        ("data", {"max_tokens": 9}, "data.max_tokens: 256 -> 9"),
    ],
)
def test_another_setting_is_refused_with_the_difference(start, tmp_path, section, change, named):
    start(tmp_path, train={"steps": 4})
    before = checkpoint_contents(at(tmp_path, 4))
    values = {"train": {"steps": 4}}
    values[section] = values.get(section, {}) | change
    with pytest.raises(UntoldError, match="made with other settings") as refusal:
        start(tmp_path, **values)
    assert named in str(refusal.value)
    assert "--allow-changed" in str(refusal.value)
    assert checkpoint_contents(at(tmp_path, 4)) == before
    values["train"]["steps"] = 6
    result, lines = start(tmp_path, allow_changed=True, **values)
    assert f"changed since the checkpoint: {named}" in lines
    assert result.progress.step == 6


def test_a_schedule_that_falls_to_the_last_step_keeps_it(start, tmp_path):
    values = {"schedule": "linear", "warmup": 1}
    start(tmp_path, train=values | {"steps": 4})
    with pytest.raises(UntoldError, match=r"train\.steps: 4 -> 6"):
        start(tmp_path, train=values | {"steps": 6})


def test_other_data_are_refused_unless_allowed(start, tmp_path):
    """With the checkpoint's own tokenizer: a new one would give its weights other words."""
    root, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    start(run, root=root, train={"steps": 8})
    with open(root / "train.src", "a") as sources, open(root / "train.tgt", "a") as targets:
        for _ in range(9):
            print("hgf hgf hgf", file=sources)
            print("hgf hgf hgf", file=targets)
    with pytest.raises(UntoldError, match=r"data\.train: "):
        start(run, root=root)
    before = (at(run, 8) / "joint.model").read_bytes()
    result, _ = start(run, root=root, allow_changed=True)
    assert result.progress.step == 12
    assert (at(run, 12) / "joint.model").read_bytes() == before


def test_fewer_data_can_be_gone_on_with(start, tmp_path):
    root, run = write_corpus(tmp_path / "corpus"), tmp_path / "run"
    start(run, root=root, stop_after=4)
    write_corpus(root, pairs=8)
    result, _ = start(run, root=root, allow_changed=True)
    assert result.progress.step == 12


def test_another_shape_cannot_be_gone_on_with(start, tmp_path):
    start(tmp_path, train={"steps": 4})
    with pytest.raises(UntoldError, match=r"has shape \(12, 8\).* ask for \(14, 8\)"):
        start(tmp_path, model={"d_ffn": 14}, allow_changed=True)


def test_a_setting_that_is_newer_than_the_checkpoint_is_no_change(start, tmp_path, monkeypatch):
    """A checkpoint of an older version lacks some settings; they had their defaults."""
    settings = resume._settings

    def older(config):
        values = settings(config)
        del values["train"]["separator_rate"]
        del values["data"]["max_ratio"]
        return values

    monkeypatch.setattr(resume, "_settings", older)
    start(tmp_path, train={"steps": 4})
    monkeypatch.setattr(resume, "_settings", settings)
    assert "separator_rate" not in (at(tmp_path, 4) / "progress.json").read_text()
    assert start(tmp_path)[0].progress.step == 12
    monkeypatch.setattr(resume, "_settings", older)
    shutil.rmtree(tmp_path / "checkpoints")
    start(tmp_path, train={"steps": 4})
    monkeypatch.setattr(resume, "_settings", settings)
    with pytest.raises(UntoldError, match=r"train\.separator_rate: 4\.0 -> 7\.0"):
        start(tmp_path, train={"separator_rate": 7.0})


def test_a_run_with_a_setting_that_is_gone_is_told_so(start, tmp_path, monkeypatch):
    settings = resume._settings

    def older(config):
        values = settings(config)
        values["train"] |= {"weight_decay": 0.5, "betas": [0.9, 0.98], "validate_beam": 3}
        return values

    monkeypatch.setattr(resume, "_settings", older)
    start(tmp_path, train={"steps": 4})
    monkeypatch.setattr(resume, "_settings", settings)
    gone = r"train\.weight_decay: 0\.5 -> 0\.0"
    with pytest.raises(UntoldError, match=rf"short_spans: 0\.0 -> 0\.6|{gone}") as caught:
        start(tmp_path)
    assert "betas" not in str(caught.value) and "validate_beam" not in str(caught.value)
    assert start(tmp_path, allow_changed=True)[0].progress.step == 12
