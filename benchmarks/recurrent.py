"""Contenders of the race of recurrent models, and what none of them can beat.

The limit is what torch's own GRU takes for the same shape: the same embeddings, the same encoder, a
GRU over the target whose states go through the same readout to the same loss. It has neither
attention nor the second half of the conditional GRU, and so is no translation model.
"""

from typing import Any

import torch
from torch import Tensor, nn

from untold.config import Config, parse_config
from untold.corpus.batching import Batch
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy

__all__ = ["GruLimit", "recurrent_shape", "recurrent_variants"]


def recurrent_shape(config: Config, preset: str) -> Config:
    """The recurrent preset, all else as in `config`."""
    model = {"backbone": "rnmt", "preset": preset, "dropout": config.model.dropout}
    return parse_config({"model": model, "train": config.train.model_dump()})


def recurrent_variants() -> dict[str, dict[str, dict[str, Any]]]:
    """Changes of the configuration of an RNMT."""
    return {
        "RNMT": {},
        "RNMT + GDR": {"model": {"separator": {"kind": "gdr"}}},
        "PFRNN": {"model": {"backbone": "pfrnn"}},
    }


class GruLimit:
    """Updates of a model that only ever reads: forward, loss, backward, clipping, Adam."""

    name = "limit: nn.GRU, no attention"

    def __init__(self, config: Config, vocabulary: int) -> None:
        torch.manual_seed(1)
        self.model = _Gru(config, vocabulary).train()
        self._config = config.train
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), config.train.learning_rate, fused=True
        )

    def update(self, batch: Batch) -> None:
        """One update with the project's own loss."""
        self._optimizer.zero_grad(set_to_none=True)
        states = self.model(batch)[batch.target_mask]
        labels = batch.labels[batch.target_mask]
        smoothing = self._config.label_smoothing
        loss, _ = label_smoothed_cross_entropy(
            states, self.model.embedding.weight, labels, smoothing
        )
        (loss / batch.target_tokens).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self._config.clip)
        self._optimizer.step()


class _Gru(nn.Module):
    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__()
        d, d_word = config.model.d_model, config.model.d_embedding or config.model.d_model
        self.embedding = nn.Embedding(vocabulary, d_word)
        layers = config.model.encoder_layers
        self.encoder = nn.GRU(d_word, d, layers, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * d, d)
        self.decoder = nn.GRU(d_word, d, batch_first=True)
        self.readout = nn.Linear(d, d_word)

    def forward(self, batch: Batch) -> Tensor:
        states, _ = self.encoder(self.embedding(batch.source))
        first = self.bridge(states.mean(1)).tanh()
        states, _ = self.decoder(self.embedding(batch.prefix), first[None])
        return self.readout(states).tanh()
