"""Training runs of models that copy: resumed, put on top of a plain model, frozen."""

import pytest

from toys import checkpoint_contents, records
from untold.errors import UntoldError
from untold.storage.model_directory import load_model
from untold.training.data import prepare_data
from untold.training.validation import validation_loss
from untold.translator import Translator

SHAPE = {"preset": "tiny", "d_model": 8, "d_ffn": 12, "heads": 2}
SHAPE |= {"encoder_layers": 1, "decoder_layers": 1}
COPYING = {"model": SHAPE | {"copying": True}}


def at(run, step):
    return run / "checkpoints" / f"step-{step:08d}"


@pytest.mark.parametrize("joint", [True, False])
def test_a_run_in_pieces_is_one_in_one_go_bit_for_bit(start, tmp_path, joint):
    sections = COPYING | {"tokenizer": {"size": 40, "joint": joint}}
    start(tmp_path / "whole", **sections)
    start(tmp_path / "pieces", stop_after=5, **sections)
    start(tmp_path / "pieces", **sections)
    whole, pieces = (checkpoint_contents(at(tmp_path / name, 12)) for name in ("whole", "pieces"))
    assert whole == pieces
    layer = load_model(tmp_path / "whole").model.copy_layer
    assert layer is not None and bool((layer.counterparts != 0).any())
    assert layer.gate.weight.abs().max() > 0, "it learns"


def test_copying_can_be_put_on_top_of_a_plain_model(start, tmp_path):
    start(tmp_path / "plain")
    _, lines = start(tmp_path / "copying", init=tmp_path / "plain", **COPYING)
    assert any("5 new (copy_layer 5)" in line for line in lines)
    assert records(tmp_path / "copying", "train")
    settings = {"freeze_backbone": True, "best_by": "loss", "bow_weight": 0.5}
    frozen = {"model": SHAPE | {"copying": True, "separator": {"kind": "gdr"}}, "train": settings}
    with pytest.raises(UntoldError, match=r"no copy_layer\.\S+ of the same shape \(5 such"):
        start(tmp_path / "frozen", init=tmp_path / "plain", **frozen)
    start(tmp_path / "frozen", init=tmp_path / "copying", **frozen)
    before, after = (load_model(tmp_path / name).model for name in ("copying", "frozen"))
    found = dict(after.named_parameters())
    for name, parameter in before.named_parameters():
        assert parameter.equal(found[name]), f"{name} is part of what translates"


def test_validation_takes_the_loss_of_the_mixture(start, tmp_path):
    start(tmp_path, **COPYING)
    trained = load_model(tmp_path)
    data = prepare_data(trained.config, trained.tokenizers, tmp_path)
    scored = Translator([trained]).score(data.valid_pairs)
    tokens = sum(len(each.tokens) + 1 for each in scored)
    expected = -sum(each.log_probability for each in scored) / tokens
    assert validation_loss(trained, data.valid) == pytest.approx(expected, rel=1e-5)
