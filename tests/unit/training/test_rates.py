"""The separator's own learning rate: who has it, and what an update makes of it."""

import pytest
import torch

from toys import checkpoint_contents, fill, toy_config, toy_tokenizers, words
from untold.corpus.batching import PairsInMemory
from untold.errors import UntoldError
from untold.interruption import Interrupted
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel
from untold.training import trainer as module
from untold.training.distributed import ProcessGroup
from untold.training.log import NullReporter
from untold.training.progress import Progress
from untold.training.trainer import Hooks, RunContext, Trainer, learning_rate, make_optimizer

SHAPE = {"preset": "tiny", "d_model": 8, "d_ffn": 12, "heads": 2}
SHAPE |= {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
GDR = SHAPE | {"separator": {"kind": "gdr", "d_capsule": 3}}


def trained_of(root, model=GDR, **settings):
    config = toy_config(root, model=model, train=settings)
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    network = fill(build_model(config.model, sizes, shared=tokenizers.joint))
    return TrainedModel(network, config, tokenizers)


def factors(trained):
    """The factor of every parameter, by name; each is in one group."""
    names = {id(parameter): name for name, parameter in trained.model.named_parameters()}
    found = [
        (names[id(parameter)], group["factor"])
        for group in make_optimizer(trained).param_groups
        for parameter in group["params"]
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_past_and_future_have_the_factor_and_the_backbone_has_not(corpus):
    trained = trained_of(corpus, separator_rate=7.0)
    names = [name for name, _ in trained.model.named_parameters()]
    assert factors(trained) == {
        name: 7.0 if name.startswith("past_future.") else 1.0 for name in names
    }
    assert {name.split(".")[0] for name in names} == {"backbone", "past_future"}


@pytest.mark.parametrize("model", [GDR, SHAPE])
def test_with_a_factor_of_one_or_without_a_separator_there_is_one_group(corpus, model):
    for rate in (1.0, 7.0):
        trained = trained_of(corpus, model, separator_rate=rate)
        groups = make_optimizer(trained).param_groups
        assert len(groups) == (2 if rate != 1 and model is GDR else 1)


def test_what_is_frozen_has_no_group(corpus):
    trained = trained_of(corpus, separator_rate=7.0, freeze_backbone=True, best_by="loss")
    torch.nn.init.zeros_(trained.model.past_future.fusion.transform.weight)  # as a run begins
    trained.model.freeze_backbone()
    found = factors(trained)
    assert found and set(found.values()) == {7.0}
    assert all(name.startswith("past_future.") for name in found)


def ids_of(count, start, size=None):
    given = {} if size is None else {"size": size}
    return words(count, start=start, **given).numpy()


def run(trained, folder):
    """Train to the end; returns the optimizer and how far each weight has moved."""
    before = {name: p.detach().clone() for name, p in trained.model.named_parameters()}
    optimizer = make_optimizer(trained)
    setting = RunContext(ProcessGroup(), NullReporter(folder, 9), Interrupted())
    size = len(trained.tokenizers.source)
    pairs = [(ids_of(1 + k % 5, k, size), ids_of(1 + k % 7, 3 * k)) for k in range(23)]
    store = PairsInMemory(pairs)
    Trainer(trained, optimizer, store, setting, Hooks()).run(Progress())
    moved = {name: (p - before[name]).detach() for name, p in trained.model.named_parameters()}
    return optimizer, moved


@pytest.mark.parametrize("factor", [1.0, 0.25, 4.0])
def test_the_first_update_of_adam_is_one_rate_long(corpus, tmp_path, factor, monkeypatch):
    """Wherever there is a gradient, however small: sign(g) times the rate times the factor."""
    settings = {"steps": 1, "warmup": 0, "schedule": "constant", "learning_rate": 0.01}
    settings |= {"separator_rate": factor, "clip": 0.0}
    monkeypatch.setattr(module, "_EPSILON", 1e-30)
    trained = trained_of(corpus, **settings)
    _, moved = run(trained, tmp_path)
    checked = {"backbone": 0, "past_future": 0}
    for name, parameter in trained.model.named_parameters():
        part = name.split(".")[0]
        if parameter.grad is None:
            continue
        there = parameter.grad.abs() > 1e-6
        rate = 0.01 * (factor if part == "past_future" else 1.0)
        expected = -rate * parameter.grad[there].sign()
        torch.testing.assert_close(moved[name][there], expected, rtol=1e-3, atol=1e-7)
        checked[part] += int(there.sum())
    assert min(checked.values()) > 100


def test_the_factor_holds_through_the_schedule(corpus, tmp_path):
    for steps in (1, 3, 4, 7):
        trained = trained_of(corpus, steps=steps, separator_rate=3.0, warmup=4)
        optimizer, _ = run(trained, tmp_path)
        rate = learning_rate(trained.config.train, steps)
        found = {group["factor"]: group["lr"] for group in optimizer.param_groups}
        assert found == pytest.approx({1.0: rate, 3.0: 3 * rate})


def test_a_run_with_two_rates_is_resumed_bit_for_bit(start, tmp_path):
    settings = {"steps": 5, "save_every": 5, "separator_rate": 3.0, "validate_every": 99}
    sections = {"model": GDR, "train": settings}
    whole, pieces, other = tmp_path / "whole", tmp_path / "pieces", tmp_path / "other"
    start(whole, **sections)
    result, _ = start(pieces, stop_after=2, **sections)
    assert result.progress.step < 5
    start(pieces, **sections)
    start(other, model=GDR, train=settings | {"separator_rate": 1.0})
    ends = [checkpoint_contents(each / "checkpoints/step-00000005") for each in (whole, pieces)]
    assert ends[0] == ends[1]
    control = checkpoint_contents(other / "checkpoints/step-00000005")
    assert control["model.safetensors"] != ends[0]["model.safetensors"]


def test_a_run_does_not_go_on_with_another_factor(start, tmp_path):
    sections = {"model": GDR, "train": {"steps": 3, "separator_rate": 3.0}}
    start(tmp_path, stop_after=1, **sections)
    with pytest.raises(UntoldError, match=r"train\.separator_rate"):
        start(tmp_path, model=GDR, train={"steps": 3, "separator_rate": 2.0})
