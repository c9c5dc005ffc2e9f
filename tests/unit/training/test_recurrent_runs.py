"""Whole runs of recurrent models: in pieces as in one go, and one kind started from another."""

import pytest

from toys import checkpoint_contents, records
from untold.storage.model_directory import load_model

GDR = {"kind": "gdr", "d_capsule": 3}
MODELS = {
    "rnmt": {"backbone": "rnmt", "separator": GDR},
    "pfrnn": {"backbone": "pfrnn", "attention_coverage": "neural"},
}


def last(run):
    return checkpoint_contents(run / "checkpoints" / "step-00000012")


@pytest.mark.parametrize("name", MODELS)
def test_a_run_in_pieces_is_one_in_one_go_bit_for_bit(start, tmp_path, name):
    start(tmp_path / "whole", model=MODELS[name])
    start(tmp_path / "pieces", model=MODELS[name], stop_after=6)
    result, lines = start(tmp_path / "pieces", model=MODELS[name])
    assert result.progress.step == 12 and any("at step 7" in line for line in lines)
    assert last(tmp_path / "pieces") == last(tmp_path / "whole")


def test_a_pfrnn_starts_from_an_rnmt_and_reports_its_losses(start, tmp_path):
    short = {"steps": 3, "validate_every": 3, "log_every": 1}
    start(tmp_path / "rnmt", model={"backbone": "rnmt"}, train=short)
    _, lines = start(
        tmp_path / "pfrnn", model={"backbone": "pfrnn"}, train=short, init=tmp_path / "rnmt"
    )
    (line,) = [line for line in lines if "starting from" in line]
    taken = sum(1 for _ in load_model(tmp_path / "rnmt").model.named_parameters())
    assert f"{taken} tensors taken over; " in line
    assert "new: backbone.layers." in line and "ignored" not in line
    first = records(tmp_path / "pfrnn", "train")[0]
    assert first["past"] > 0 and first["future"] > 0
    assert first["loss"] > first["nll"] + 0.9 * (first["past"] + first["future"])
