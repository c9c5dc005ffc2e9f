"""Whole runs of recurrent models: in pieces as in one go, and one kind started from another."""

import pytest

from toys import checkpoint_contents, records
from untold.config import model_config_class
from untold.errors import UntoldError
from untold.storage.model_directory import load_model
from untold.training import checkpoint as module

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
    assert " new (backbone.layers " in line and "not used" not in line
    first = records(tmp_path / "pfrnn", "train")[0]
    assert first["past"] > 0 and first["future"] > 0
    assert first["loss"] > first["nll"] + 0.9 * (first["past"] + first["future"])


@pytest.mark.parametrize("name", ["rnmt", "pfrnn", "transformer"])
def test_a_checkpoint_of_before_each_backbone_had_its_own_keys_is_gone_on_with(
    start, tmp_path, name, monkeypatch
):
    settings, legacy = module._settings, dict(model_config_class(name).legacy_keys)
    if name == "transformer":
        legacy["d_embedding"] = None

    def older(config):
        values = settings(config)
        del values["model"]["output_bias"]
        return values | {"model": values["model"] | legacy}

    model = MODELS.get(name, {"backbone": name})
    monkeypatch.setattr(module, "_settings", older)
    start(tmp_path, model=model, train={"steps": 4})
    monkeypatch.setattr(module, "_settings", settings)
    with pytest.raises(UntoldError, match=r"other settings: model\.output_bias: False -> True\."):
        start(tmp_path, model=model | {"output_bias": True})
    assert start(tmp_path, model=model)[0].progress.step == 12
