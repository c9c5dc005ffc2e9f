"""Two systems on the same sentences: is the mean of one really higher? (Paired bootstrap.)"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from untold.errors import UntoldError

__all__ = ["PairedDifference", "paired_bootstrap"]

_AT_ONCE = 1_000_000  # numbers drawn at a time


@dataclass(frozen=True)
class PairedDifference:
    """Means of both systems, and what resampling the sentences says of their difference."""

    before: float
    after: float
    low: float  # of the 95 % interval of after - before
    high: float
    p: float  # how often resampled sentences show no gain: one-sided
    samples: int

    def __str__(self) -> str:
        gain = self.after - self.before
        return (
            f"{self.before:.4f} -> {self.after:.4f}, difference {gain:+.4f} "
            f"[{self.low:+.4f}, {self.high:+.4f}], p = {self.p:.4f} "
            f"(paired bootstrap, {self.samples} samples)"
        )


def paired_bootstrap(
    before: Sequence[float], after: Sequence[float], samples: int, seed: int
) -> PairedDifference:
    """Scores of the same sentences by two systems; the same seed gives the same figures."""
    if len(before) != len(after) or not len(before):
        raise UntoldError(
            f"{len(before)} and {len(after)} scores: a paired bootstrap needs one of each system "
            "for every sentence, and a sentence at least"
        )
    if samples < 1:
        raise UntoldError(f"{samples} samples: draw at least 1")
    scores = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    differences = scores[1] - scores[0]
    generator, size = np.random.default_rng(seed), len(differences)
    rows, means = max(1, _AT_ONCE // size), np.empty(samples)
    for first in range(0, samples, rows):
        part = means[first : first + rows]
        part[:] = differences[generator.integers(size, size=(len(part), size))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    # The data themselves count as one more sample: p is never zero.
    p = (int((means <= 0).sum()) + 1) / (samples + 1)
    return PairedDifference(
        float(scores[0].mean()), float(scores[1].mean()), float(low), float(high), p, samples
    )
