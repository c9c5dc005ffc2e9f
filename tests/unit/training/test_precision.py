"""Precision of a run: refused where it is imitated, chosen by a race, resumed bit for bit."""

import pytest
import torch

from toys import checkpoint_contents
from untold import hardware
from untold.errors import UntoldError
from untold.hardware import check_precision, choose_precision
from untold.storage.model_directory import load_model

CPU = torch.device("cpu")


@pytest.fixture
def processor(monkeypatch):
    """Pretend a processor: processor(has=True, bf16=0.5) has instructions that take so long."""

    def pretend(*, has, bf16):
        seconds = {torch.bfloat16: bf16, torch.float32: 1.0}
        for name in hardware._BF16:
            monkeypatch.setattr(torch.cpu, name, lambda: has, raising=False)
        monkeypatch.setattr(hardware, "_product_seconds", seconds.__getitem__)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    return pretend


@pytest.mark.parametrize(
    ("has", "bf16", "chosen", "refused"),
    [
        (True, 0.4, "bf16", False),
        (True, 1.2, "fp32", False),  # a busy machine: slower, but not imitated
        (True, 100.0, "fp32", True),  # the instructions are hidden from torch's library
        (False, 0.4, "fp32", True),
    ],
)
def test_bf16_needs_instructions_that_prove_themselves(processor, has, bf16, chosen, refused):
    processor(has=has, bf16=bf16)
    assert choose_precision(CPU) == chosen
    check_precision("fp32", CPU)
    check_precision("auto", CPU)
    if not refused:
        check_precision("bf16", CPU)
        return
    with pytest.raises(UntoldError, match=r'"bf16" needs .* this CPU does not: use "fp32"'):
        check_precision("bf16", CPU)


def test_bf16_is_refused_before_anything_is_written(start, processor, tmp_path):
    processor(has=False, bf16=100.0)
    with pytest.raises(UntoldError, match=r'train\.precision = "bf16"'):
        start(tmp_path / "run", train={"precision": "bf16"})
    assert not (tmp_path / "run").exists()


def test_a_run_keeps_the_precision_that_was_chosen_at_its_start(start, processor, tmp_path):
    processor(has=True, bf16=100.0)
    start(tmp_path, stop_after=2, train={"precision": "auto"})
    processor(has=True, bf16=0.4)
    result, _ = start(tmp_path, train={"precision": "auto"})
    assert result.progress.step == 12
    assert load_model(tmp_path).config.train.precision == "fp32"


@pytest.mark.skipif(
    choose_precision(CPU) != "bf16", reason="this CPU has no instructions for bf16, or slow ones"
)
def test_a_run_in_bf16_is_resumed_bit_for_bit(start, tmp_path):
    bf16 = {"train": {"precision": "bf16"}, "model": {"separator": {"kind": "gdr"}}}
    start(tmp_path / "whole", **bf16)
    start(tmp_path / "pieces", stop_after=3, **bf16)
    start(tmp_path / "pieces", **bf16)
    start(tmp_path / "wide", model=bf16["model"])
    last = "checkpoints/step-00000012"
    whole, pieces, wide = (
        checkpoint_contents(tmp_path / run / last) for run in ("whole", "pieces", "wide")
    )
    assert whole == pieces
    assert whole["model.safetensors"] != wide["model.safetensors"]
