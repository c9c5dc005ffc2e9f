"""The code that GPUs run instead of the kernels for CPUs, on a device without memory.

torch for CPUs cannot even pretend to have a GPU, so these tensors are on the device "meta": all
that asks whether a tensor is on the CPU then goes the way of a GPU. Values do not exist there, so
nothing may depend on them.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from toys import compute_losses, separator, shape_of, toy_batch, toy_config, toy_model
from untold.config import TrainConfig
from untold.errors import UntoldError
from untold.models import transformer
from untold.training import run
from untold.training.distributed import compile_layers
from untold.training.run import RunOptions, train


@pytest.mark.parametrize("kind", ["none", "gdr-dot", "gdr-said", "gdr-mlp", "clf", "attn"])
def test_a_forward_and_a_backward_pass_run_where_there_is_no_cpu_kernel(kind, monkeypatch):
    monkeypatch.setattr(transformer, "_wanted", lambda mask: mask[:, None, None, :])
    batch = toy_batch([(3, 5), (4, 2)]).to(torch.device("meta"))
    model = toy_model(separator=separator(kind, lexicon=0), dropout=0.1).to("meta").train()
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    logits = model.logits(outputs.holistic)
    assert (logits.device.type, logits.shape) == ("meta", (2, 6, 13))
    total = logits.sum()
    if outputs.assignments is not None:
        total = total + outputs.assignments.sum()
    total.backward()
    reached = [name for name, p in model.named_parameters() if p.grad is not None]
    assert any("encoder" in name for name in reached) and any("decoder" in name for name in reached)
    assert kind == "none" or any(name.startswith("past_future.") for name in reached)


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for what a machine without GPUs lacks")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "cuda"}, r'device = "cuda": torch sees no GPU'),
        ({"compile": True}, r"train\.compile .* needs a GPU"),
    ],
)
def test_what_the_device_cannot_do_is_refused_before_anything_is_written(
    corpus, tmp_path, settings, message
):
    with pytest.raises(UntoldError, match=message):
        train(toy_config(corpus, train=settings), RunOptions(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_model_without_layers_to_compile_is_told_so(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "check_compilation", lambda device: None)
    model = {**shape_of("rnmt"), "backbone": "rnmt"}
    settings = {"compile": True, "steps": 1, "validate_bleu": False, "best_by": "loss"}
    train(toy_config(corpus, model=model, train=settings), RunOptions(tmp_path / "run"))
    assert "train.compile has no effect: the backbone rnmt" in capsys.readouterr().err


def compare_compiled_layers():
    """The backend "eager" traces layers as a GPU's does, and then runs them as they are."""
    batch, config = toy_batch([(3, 5), (4, 2)]), TrainConfig()
    plain, compiled = toy_model(), toy_model()
    assert compile_layers(compiled, backend="eager") == 2 * 2 + 3 * 3
    assert list(dict(compiled.named_parameters())) == list(dict(plain.named_parameters()))
    totals = [compute_losses(model, batch, config, 1).total for model in (plain, compiled)]
    for total in totals:
        total.backward()
    torch.testing.assert_close(totals[1], totals[0])
    for one, other in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    print("equal")


def test_compiled_layers_compute_the_same_and_keep_their_names():
    """In a process of its own: the compiler cannot see through the check of shapes."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[3])]
    code = f"import sys; sys.path[:0] = {folders!r}; import {Path(__file__).stem} as here"
    command = [sys.executable, "-c", f"{code}; here.compare_compiled_layers()"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout == "equal\n", found.stderr
