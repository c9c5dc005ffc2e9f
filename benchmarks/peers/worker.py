"""Makes updates of one toolkit on command; runs in that toolkit's own environment.

    python worker.py TOOLKIT BATCHES.npz

For each line on standard input it makes one update (toolkits.py) on the next batch, and answers
with the processor's seconds and the loss as JSON. The first answer tells the version and the
parameters. Whatever a toolkit prints goes to standard error.
"""

import json
import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from toolkits import TOOLKITS


@dataclass(frozen=True)
class Shape:
    """What all toolkits have in common."""

    vocabulary: int
    d_model: int
    d_ffn: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    dropout: float
    smoothing: float
    clip: float
    rate: float
    betas: tuple
    epsilon: float


@dataclass(frozen=True)
class PeerBatch:
    """Padded ids: `prefix` is BOS y_1 .. y_T, `labels` is y_1 .. y_T EOS."""

    source: torch.Tensor
    source_length: torch.Tensor
    prefix: torch.Tensor
    labels: torch.Tensor
    target_length: torch.Tensor

    @property
    def whole_target(self):
        """BOS y_1 .. y_T EOS."""
        return torch.cat([self.prefix[:, :1], self.labels], dim=1)


def read_batches(path):
    """Reads the shape and the batches that train_peers.py wrote."""
    with np.load(path) as file:
        shape = Shape(**json.loads(str(file["shape"])))
        fields = list(PeerBatch.__dataclass_fields__)
        batches = [
            PeerBatch(**{name: torch.from_numpy(file[f"{name}{number}"]) for name in fields})
            for number in range(int(file["count"]))
        ]
    return shape, batches


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    toolkit, path = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape, batches = read_batches(Path(path))
    version, model, update = TOOLKITS[toolkit](shape, batches)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"version": version, "parameters": sum(p.numel() for p in model.parameters())})
    for number, _ in enumerate(sys.stdin):
        began = time.process_time()
        loss = update(number % len(batches))
        answer({"seconds": time.process_time() - began, "loss": loss})


if __name__ == "__main__":
    main()
