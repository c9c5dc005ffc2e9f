"""Hugging Face models trained by two processes, each with all of the model or a share of it.

And the code that a GPU would run, on a device without memory.
"""

from pathlib import Path

import pytest
import torch

from huggingface_toys import (
    FAMILIES,
    LINES,
    languages,
    save_folder,
    with_past_future,
    wrapped,
)
from jobs import newest
from ranks import run_ranks
from toys import records
from untold.config import parse_config
from untold.storage.model_directory import TrainedModel
from untold.training.run import RunOptions, train

# Processes that share a model have as many batches each: the last of an epoch may be left out.
ALIKE = {"accumulate": 2, "counterfactual": 0.0, "batch_tokens": 60}
DROPPING = ("m2m100", "nllb")  # whole layers, by their default


def config(root, family, **settings):
    files = {"source": "corpus.src", "target": "corpus.tgt"}
    wanted = {"steps": 4, "warmup": 1, "batch_tokens": 120, "accumulate": 3, "log_every": 1}
    wanted |= {"save_every": 2, "best_by": "loss"}
    separator = {"kind": "gdr", "d_capsule": 4, "lexicon": 4}
    model = {"backbone": "huggingface", "separator": separator, **languages(family)}
    values = {"data": {"root": str(root), "train": files}, "model": model}
    return parse_config(values | {"train": wanted | settings})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    for side, lines in (("src", LINES[:2]), ("tgt", LINES[2:])):
        text = "".join(f"{line}\n{line.split(' ,')[0]}\n" for line in lines * 6)
        (root / f"corpus.{side}").write_text(text, encoding="utf-8")
    return root


def start(root, folder, out, family, **settings):
    options = RunOptions(out, init=Path(f"hf:{folder}"), calibrate=False)
    train(config(root, family, **settings), options)
    return out


@pytest.mark.parametrize(
    ("family", "shard", "settings"),
    [
        ("marian", False, {}),
        ("marian", True, ALIKE | {"freeze_backbone": True}),
        ("bart", True, ALIKE),
        ("t5 v1.1", True, ALIKE),
    ],
    ids=str,
)
def test_two_processes_train_as_one_does_and_go_on_bit_for_bit(
    family, shard, settings, corpus, tmp_path
):
    folder = save_folder(family, tmp_path / "hf")
    single, whole, parted = tmp_path / "single", tmp_path / "whole", tmp_path / "parted"
    start(corpus, folder, single, family, **settings)

    def shared(out, **others):
        found = run_ranks(
            lambda rank: start(corpus, folder, out, family, shard=shard, **settings, **others),
            tmp_path,
        )
        assert found == ["", ""]

    shared(whole)
    for found, expected in zip(records(whole), records(single), strict=True):
        room = 1e-5 if found["step"] == 1 else 1e-3  # Adam magnifies what was rounded otherwise
        for name in expected.keys() & {"step", "loss", "nll", "bow", "norm"}:
            assert found[name] == pytest.approx(expected[name], rel=room)
    shared(parted, steps=2)
    shared(parted)
    weights = [(newest(run) / "model.safetensors").read_bytes() for run in (parted, whole)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_are_gathered_one_by_one_unless_some_may_be_dropped(family):
    backbone = wrapped(family).model.backbone
    blocks = list(backbone.blocks())
    held = {id(parameter) for block in blocks for parameter in block.parameters()}
    layers = {
        name: id(parameter)
        for name, parameter in backbone.named_parameters()
        if ".layers." in name or ".block." in name
    }
    assert len(layers) > 40
    assert held == (set() if family in DROPPING else set(layers.values()))
    assert len(blocks) == len(set(blocks))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_forward_and_a_backward_pass_run_where_there_is_no_cpu_kernel(family):
    found, model = wrapped(family), with_past_future(family).to("meta").train()
    codec = TrainedModel(found.model, found.config, found.tokenizers).codec
    pairs = codec.encode_pairs([(LINES[0], LINES[2]), ("a cat", "die Katze")])
    batch = codec.batch(pairs, [0, 1]).to(torch.device("meta"))
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    logits = model.logits(outputs.holistic)
    assert logits.device.type == outputs.assignments.device.type == "meta"
    (logits.sum() + outputs.assignments.sum()).backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None]
    layers = [name for name in missing if ".layers." in name or ".block." in name]
    assert layers == [] or family in DROPPING
