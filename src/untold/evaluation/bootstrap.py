"""The paired bootstrap for scores of single sentences: is the mean of one system really higher?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from untold.errors import UntoldError
from untold.metrics.significance import p_value, resampled_sums


@dataclass(frozen=True)
class PairedDifference:
    """The means of both systems and the bootstrap's verdict on their difference."""

    before: float
    after: float
    low: float  # lower end of the 95 % interval of after - before
    high: float
    p: float  # one-sided: the share of resampled corpora without a gain
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
    """Compares two systems by their scores of the same sentences; a seed fixes the figures."""
    if len(before) != len(after) or not len(before):
        raise UntoldError(
            f"{len(before)} and {len(after)} scores: a paired bootstrap needs one of each system "
            "for every sentence, and a sentence at least"
        )
    scores = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    differences = (scores[1] - scores[0])[None, :, None]
    sums = resampled_sums(differences, samples, np.random.default_rng(seed))
    means = sums[0, :, 0] / len(before)
    low, high = np.quantile(means, [0.025, 0.975])
    p = p_value(means <= 0)
    return PairedDifference(
        float(scores[0].mean()), float(scores[1].mean()), float(low), float(high), p, samples
    )
