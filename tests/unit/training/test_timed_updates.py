"""Updates that are made to be timed are real ones."""

import torch

from toys import fill, toy_batch, toy_config, toy_tokenizers
from untold.lab.speed import TimedUpdates
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel

BATCH = toy_batch([(4, 6), (3, 5)])


def make(corpus, **train):
    separator = {"kind": "gdr", "d_capsule": 3}
    values = {"d_model": 8, "d_ffn": 12, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = toy_config(corpus, model=values | {"separator": separator}, train=train)
    tokenizers = toy_tokenizers(corpus, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=tokenizers.joint))
    return TrainedModel(model, config, tokenizers)


def changed(trained, updates):
    before = {name: p.detach().clone() for name, p in trained.model.named_parameters()}
    assert updates(BATCH) == 6 + 5 + 2, "target tokens, the ends among them"
    return {
        name for name, p in trained.model.named_parameters() if not torch.equal(p, before[name])
    }


def test_an_update_moves_what_training_moves(corpus):
    """With the auxiliary losses, however late in a run they begin."""
    trained = make(corpus, learning_rate=0.5, warmup=0, auxiliary_start=700, bow_share=1.0)
    moved = changed(trained, TimedUpdates(trained))
    assert "past_future.heads.bow_past.weight" in moved
    assert any(name.startswith("backbone.") for name in moved)


def test_a_frozen_backbone_stays(corpus):
    trained = make(
        corpus, learning_rate=0.5, warmup=0, freeze_backbone=True, best_by="loss", bow_share=1.0
    )
    for parameter in trained.model.past_future.fusion.parameters():
        torch.nn.init.zeros_(parameter)  # as a probe has it
    moved = changed(trained, TimedUpdates(trained))
    assert moved and not any(name.startswith("backbone.") for name in moved)
