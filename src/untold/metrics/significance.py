"""Tests the significance of a difference of corpus-level scores by two paired, two-sided tests.

    d  =  mean score of the system's runs  -  mean score of the baseline's runs

The paired bootstrap (Koehn, 2004) draws sentences with replacement, the same for all runs. The
distance of these d from their own mean is the distance that d would have from zero by chance.
Approximate randomisation (Noreen, 1989) exchanges the outputs of all runs of both sides at random,
sentence by sentence, as is allowed if neither side is better. Both tests count the trials that are
at least as far from zero as d, and d itself: equal systems have p = 1, and no p is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from untold.errors import UntoldError

_CELLS_AT_ONCE = 1 << 22  # random numbers held at a time
_ROUNDING = 1e-9  # trials equal to d count although their sums were rounded differently


@dataclass(frozen=True)
class PValues:
    """The probability of a difference at least as large between equally good systems."""

    bootstrap: float
    randomisation: float


@dataclass(frozen=True)
class Paired:
    """Statistics of the same n sentences: of k runs of the baseline and m runs of the system."""

    baseline: Float[np.ndarray, "k n s"]
    system: Float[np.ndarray, "m n s"]


@dataclass(frozen=True)
class Differences:
    """System minus baseline: as measured, on resampled sentences, and with exchanged outputs."""

    real: float
    resampled: Float[np.ndarray, " r"]
    exchanged: Float[np.ndarray, " r"]

    @classmethod
    def average(cls, several: "Sequence[Differences]") -> "Differences":
        """Averages the differences over test sets, each of which was resampled separately."""
        return cls(
            float(np.mean([each.real for each in several])),
            np.mean([each.resampled for each in several], axis=0),
            np.mean([each.exchanged for each in several], axis=0),
        )

    def p_values(self) -> PValues:
        """Computes the p-values of both tests."""
        strayed = self.resampled - self.resampled.mean()
        return PValues(self._share_beyond(strayed), self._share_beyond(self.exchanged))

    def _share_beyond(self, trials: Float[np.ndarray, " r"]) -> float:
        return p_value(np.abs(trials) >= abs(self.real) - _ROUNDING)


def p_value(beyond: Bool[np.ndarray, " r"]) -> float:
    """Returns the share of true trials. The data count as one more trial, so p is never zero."""
    return (1 + int(beyond.sum())) / (1 + len(beyond))


def sentence_statistics(
    metric: SacrebleuMetric,
    hypotheses: Sequence[str],
    references: Sequence[str],
    further: Sequence[Sequence[str]] = (),
) -> Float[np.ndarray, "n s"]:
    """Returns a row of statistics for each sentence; their sum determines the corpus score.

    `further` holds more references of each sentence.
    """
    sets = [list(texts) for texts in (references, *further)]
    for texts in sets:
        if len(hypotheses) != len(texts):
            raise UntoldError(
                f"{len(hypotheses)} translations but {len(texts)} references: line by line they "
                "must belong together"
            )
    rows = metric._extract_corpus_statistics(list(hypotheses), sets)
    return np.asarray(rows, dtype=np.float64)


def corpus_value(metric: SacrebleuMetric, sums: Float[np.ndarray, " s"]) -> float:
    """Computes the score of a corpus from its summed statistics."""
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def run_trials(
    metric: SacrebleuMetric, paired: Paired, trials: int, dice: np.random.Generator
) -> Differences:
    """Runs the given number of trials of both tests."""
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
    """Sums over n sentences drawn with replacement; all runs share the sentences of a trial."""
    if trials < 1:
        raise UntoldError(f"{trials} samples test nothing: ask for 1000, say")
    n, parts = runs.shape[1], []
    for count in _portions(trials, n):
        drawn = dice.choice(n, size=(count, n), replace=True)
        times = np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float64)
        parts.append(times @ runs)
    return np.concatenate(parts, axis=1)


def _difference(
    metric: SacrebleuMetric, sums: Float[np.ndarray, "q r s"], k: int
) -> Float[np.ndarray, " r"]:
    scores = np.array([[corpus_value(metric, trial) for trial in run] for run in sums])
    return scores[k:].mean(0) - scores[:k].mean(0)


def _exchanged(
    runs: Float[np.ndarray, "q n s"], trials: int, dice: np.random.Generator
) -> Float[np.ndarray, "q r s"]:
    """Sums the statistics of runs whose outputs are exchanged at random for each sentence."""
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
    """Splits the trials, of `cells` numbers each, into groups that fit into memory."""
    size = max(1, _CELLS_AT_ONCE // max(1, cells))
    return [min(size, trials - first) for first in range(0, trials, size)]
