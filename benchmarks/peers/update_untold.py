"""Ours: the trainer's own update, in the project's environment, by the same protocol."""

import torch
from worker import EOS, PAD

from contenders import UntoldTraining, varied
from untold.config import Config
from untold.corpus.batching import Batch
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.version import __version__
from workload import small_workload


def version():
    return f"untold {__version__}"


def start(shape, batches):
    model = {
        name: getattr(shape, name)
        for name in ("d_model", "d_ffn", "heads", "encoder_layers", "decoder_layers")
    }
    rates = ("dropout", "attention_dropout", "activation_dropout")
    config = varied(
        Config(),
        {
            "model": model | dict.fromkeys(rates, shape.dropout),
            "train": {
                "learning_rate": shape.rate,
                "clip": shape.clip,
                "label_smoothing": shape.smoothing,
            },
        },
    )
    training = UntoldTraining(config, shape.vocabulary, small_workload(1000))
    own = [_batch(batch) for batch in batches]

    def update(number):
        training.update(own[number])

    update.parameters = sum(p.numel() for p in training.model.parameters())
    return update


def _batch(batch):
    return Batch(
        source=batch.source,
        source_mask=batch.source != PAD,
        prefix=batch.prefix,
        labels=batch.labels,
        target_mask=batch.labels != PAD,
        indices=torch.arange(len(batch.source)),
        source_words=(batch.source != PAD) & (batch.source != EOS),
        special=SENTENCEPIECE_IDS,
    )
