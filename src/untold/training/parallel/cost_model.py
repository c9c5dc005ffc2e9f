"""Predicts what an update costs: how time and memory grow with batch, lengths, widths, vocabulary.

An update is described by a few counts, such as the multiplications of its matrix products. A
machine is described by what one of each costs: `fit_costs` learns that from measured updates, and
`predict` adds up. `benchmarks/cost.py` measures, fits and checks on shapes that were not measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UpdateShape:
    """Describes one update of a Transformer; without capsules it is the plain model."""

    sentences: int  # B
    source: int  # I, tokens of each source
    target: int  # T
    vocabulary: int  # V, of both languages
    d_model: int = 512
    d_ffn: int = 2048
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    capsules: int = 0  # J
    d_capsule: int = 0  # d_c
    iterations: int = 3
    bow_share: float = 0.0  # of the steps, whose bags of words are computed

    @property
    def parameters(self) -> int:
        """Counts the weights, but for biases and norms."""
        d, f = self.d_model, self.d_ffn
        layers = self.encoder_layers * (4 * d * d + 2 * d * f)
        layers += self.decoder_layers * (8 * d * d + 2 * d * f)
        wide = self.capsules * self.d_capsule
        separator = 3 * d * wide + 2 * self.d_capsule**2 if wide else 0
        return layers + separator + self.vocabulary * d

    def work(self) -> dict[str, float]:
        """Counts the work of forward and backward pass and optimizer, by kind."""
        d, f, s, t = self.d_model, self.d_ffn, self.source_tokens, self.target_tokens
        products = self.encoder_layers * s * (4 * d * d + 2 * d * f)
        products += self.decoder_layers * (t * (6 * d * d + 2 * d * f) + s * 2 * d * d)
        wide = self.capsules * self.d_capsule
        products += wide * d * (s + 2 * t)
        words = t * self.vocabulary * (1 + 2 * self.bow_share)
        routing = t * self.source * wide * 2 * self.iterations
        return {
            "products": 3.0 * products,
            "attention": 3.0 * self._attended * 2 * d,
            "vocabulary": 3.0 * words * d,
            "routing": 3.0 * routing,
            "softmax": float(self._attended * self.heads + words),
            "activations": float(self._layer_tokens * (8 * d + f)),
            "parameters": float(self.parameters),
        }

    def kept(self) -> dict[str, float]:
        """Counts the numbers that the forward pass keeps for the backward pass, by kind."""
        d, f = self.d_model, self.d_ffn
        wide = self.capsules * self.d_capsule
        return {
            "encoder": float(self.encoder_layers * self.source_tokens * d),
            "decoder": float(self.decoder_layers * self.target_tokens * d),
            "feed-forward": float(self._layer_tokens * f),
            "keys and values": float(self.decoder_layers * self.source_tokens * d),
            "vocabulary": float(self.target_tokens * self.vocabulary),
            "embeddings": float((self.source_tokens + self.target_tokens) * d),
            "capsules": float((self.source_tokens + self.target_tokens) * wide),
            "assignments": float(self.target_tokens * self.source * self.capsules),
        }

    @property
    def source_tokens(self) -> int:
        """Counts source tokens, padding included."""
        return self.sentences * self.source

    @property
    def target_tokens(self) -> int:
        """Counts target tokens, padding included."""
        return self.sentences * self.target

    @property
    def _layer_tokens(self) -> int:
        return self.encoder_layers * self.source_tokens + self.decoder_layers * self.target_tokens

    @property
    def _attended(self) -> int:
        """Counts the pairs of positions that attend to each other, over all layers."""
        own = self.encoder_layers * self.source**2 + self.decoder_layers * self.target**2
        return self.sentences * (own + self.decoder_layers * self.source * self.target)


def fit_costs(counts: Sequence[Mapping[str, float]], measured: Sequence[float]) -> dict[str, float]:
    """Finds what one of each kind costs, none below zero, so that relative errors are small."""
    kinds = list(counts[0])
    kept = list(range(len(kinds)))
    rows = np.array([[each[kind] for kind in kinds] for each in counts])
    rows = rows / np.array(measured)[:, None]
    scale = np.maximum(rows.max(0), 1e-300)
    while True:
        found = np.linalg.lstsq(rows[:, kept] / scale[kept], np.ones(len(rows)), rcond=None)[0]
        if (found >= 0).all():
            break
        kept.pop(int(found.argmin()))
    costs = dict.fromkeys(kinds, 0.0)
    return costs | {kinds[k]: float(value / scale[k]) for k, value in zip(kept, found, strict=True)}


def predict(counts: Mapping[str, float], costs: Mapping[str, float]) -> float:
    """Adds up what all kinds cost."""
    return sum(count * costs[kind] for kind, count in counts.items())


@dataclass(frozen=True)
class Cluster:
    """Describes GPUs by what they reach in practice, and the network between machines."""

    flops: float  # multiplications and additions a second that training reaches on one GPU
    inside: float  # bytes a second between the GPUs of a machine
    between: float  # bytes a second of each GPU to other machines
    gpus_of_machine: int = 8
    memory: float = 80e9  # bytes of one GPU


@dataclass(frozen=True)
class Layout:
    """Predicts one update on so many GPUs."""

    gpus: int
    compute: float  # seconds
    gradients: float  # seconds to sum gradients, most of which overlap with the backward pass
    memory: float  # bytes on each GPU
    seconds: float


def predict_layout(
    share: UpdateShape,
    gpus: int,
    cluster: Cluster,
    kept_costs: Mapping[str, float],
    shards: int = 1,
) -> Layout:
    """Predicts an update in which each GPU computes `share`.

    Two thirds of the computing are the backward pass, during which gradients are summed; what takes
    longer is waited for. With `shards`, weights and optimizer are parted over so many GPUs.
    """
    compute = 2 * sum(share.work()[k] for k in ("products", "attention", "vocabulary", "routing"))
    compute /= cluster.flops
    speed = cluster.inside if gpus <= cluster.gpus_of_machine else cluster.between
    gradients = 0.0 if gpus == 1 else 2 * (gpus - 1) / gpus * 4 * share.parameters / speed
    if shards > 1:
        gradients *= 1.5  # weights are gathered for forward and backward, gradients scattered
    memory = 16 * share.parameters / shards + predict(share.kept(), kept_costs)
    seconds = compute + max(0.0, gradients - 2 / 3 * compute)
    return Layout(gpus, compute, gradients, memory, seconds)
