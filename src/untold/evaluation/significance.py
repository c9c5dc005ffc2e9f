"""Whether a difference of corpus-level scores may be chance: two paired tests, two-sided.

    d  =  mean score of the system's runs  -  mean score of the baseline's runs

Paired bootstrap (Koehn, 2004): sentences are drawn with replacement, the same for all runs. How far
d strays from its own mean then says how far it would stray from zero by chance. Approximate
randomisation (Noreen, 1989): for each sentence, the outputs of all runs of both sides change places
at random, as they may if neither side is better. Both count the trials at least as far from zero
as d, and d itself: systems that are the same have p = 1, and no p is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from sacrebleu.metrics.base import Metric

from untold.errors import UntoldError

__all__ = [
    "Differences",
    "PValues",
    "Paired",
    "corpus_value",
    "p_value",
    "resampled_sums",
    "sentence_statistics",
    "try_chance",
]

_CELLS_AT_ONCE = 1 << 22  # random numbers held at a time
_ROUNDING = 1e-9  # of scores up to 100: equal trials count, however their sums were rounded


@dataclass(frozen=True)
class PValues:
    """The chance of a difference at least as large between systems that are equally good."""

    bootstrap: float
    randomisation: float


@dataclass(frozen=True)
class Paired:
    """Statistics of every run on the same n sentences: k of the baseline, m of the system."""

    baseline: Float[np.ndarray, "k n s"]
    system: Float[np.ndarray, "m n s"]


@dataclass(frozen=True)
class Differences:
    """System minus baseline: as it is, on drawn sentences, and with outputs exchanged."""

    real: float
    resampled: Float[np.ndarray, " r"]
    exchanged: Float[np.ndarray, " r"]

    @classmethod
    def average(cls, several: "Sequence[Differences]") -> "Differences":
        """Of the mean score over test sets, each of which was drawn from by itself."""
        return cls(
            float(np.mean([each.real for each in several])),
            np.mean([each.resampled for each in several], axis=0),
            np.mean([each.exchanged for each in several], axis=0),
        )

    def p_values(self) -> PValues:
        """Of both tests."""
        strayed = self.resampled - self.resampled.mean()
        return PValues(self._share_beyond(strayed), self._share_beyond(self.exchanged))

    def _share_beyond(self, trials: Float[np.ndarray, " r"]) -> float:
        return p_value(np.abs(trials) >= abs(self.real) - _ROUNDING)


def p_value(beyond: Bool[np.ndarray, " r"]) -> float:
    """The share of trials that went so far. The data count as one more: it is never zero."""
    return (1 + int(beyond.sum())) / (1 + len(beyond))


def sentence_statistics(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> Float[np.ndarray, "n s"]:
    """What the score of a corpus is computed from, a row for each sentence, to be summed."""
    if len(hypotheses) != len(references):
        raise UntoldError(
            f"{len(hypotheses)} translations but {len(references)} references: line by line they "
            "must belong together"
        )
    rows = metric._extract_corpus_statistics(list(hypotheses), [list(references)])
    return np.asarray(rows, dtype=np.float64)


def corpus_value(metric: Metric, sums: Float[np.ndarray, " s"]) -> float:
    """The score of a corpus with these sums."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def try_chance(
    metric: Metric, paired: Paired, trials: int, dice: np.random.Generator
) -> Differences:
    """So many trials of both tests."""
    runs, k = np.concatenate([paired.baseline, paired.system]), len(paired.baseline)
    sums = {
        "real": runs.sum(1, keepdims=True),
        "resampled": resampled_sums(runs, trials, dice),
        "exchanged": _exchanged(runs, trials, dice),
    }
    found = {name: _difference(metric, values, k) for name, values in sums.items()}
    return Differences(float(found["real"][0]), found["resampled"], found["exchanged"])


def resampled_sums(
    runs: Float[np.ndarray, "q n s"], trials: int, dice: np.random.Generator
) -> Float[np.ndarray, "q r s"]:
    """Sums over n sentences drawn with replacement, in every trial the same for all runs."""
    if trials < 1:
        raise UntoldError(f"{trials} samples test nothing: ask for 1000, say")
    n, parts = runs.shape[1], []
    for count in _portions(trials, n):
        drawn = dice.choice(n, size=(count, n), replace=True)
        times = np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float64)
        parts.append(times @ runs)
    return np.concatenate(parts, axis=1)


def _difference(
    metric: Metric, sums: Float[np.ndarray, "q r s"], k: int
) -> Float[np.ndarray, " r"]:
    scores = np.array([[corpus_value(metric, trial) for trial in run] for run in sums])
    return scores[k:].mean(0) - scores[:k].mean(0)


def _exchanged(
    runs: Float[np.ndarray, "q n s"], trials: int, dice: np.random.Generator
) -> Float[np.ndarray, "q r s"]:
    """Sums of runs whose outputs for each sentence have changed places at random."""
    q, n, parts = len(runs), runs.shape[1], []
    for count in _portions(trials, n * q):
        order: Int[np.ndarray, "r n q"] = dice.random((count, n, q)).argsort(-1)
        made = [
            sum((order[..., place] == run).astype(np.float64) @ runs[run] for run in range(q))
            for place in range(q)
        ]
        parts.append(np.stack(made))
    return np.concatenate(parts, axis=1)


def _portions(trials: int, cells: int) -> list[int]:
    """Trials in groups of bounded size, of `cells` numbers each."""
    size = max(1, _CELLS_AT_ONCE // max(1, cells))
    return [min(size, trials - first) for first in range(0, trials, size)]
