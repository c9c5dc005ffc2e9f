"""The code that GPUs run instead of the kernels for CPUs, on a device without memory.

torch for CPUs cannot even pretend to have a GPU, so these tensors are on the device "meta": all
that asks whether a tensor is on the CPU then goes the way of a GPU. Values do not exist there, so
nothing may depend on them.
"""

import pytest
import torch

from toys import separator, toy_batch, toy_config, toy_model
from untold.errors import UntoldError
from untold.models import transformer
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
def test_a_gpu_that_is_not_there_is_refused_before_anything_is_written(corpus, tmp_path):
    with pytest.raises(UntoldError, match=r'device = "cuda": torch sees no GPU'):
        train(toy_config(corpus, train={"device": "cuda"}), RunOptions(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
