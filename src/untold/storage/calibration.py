"""Calibration: regressions that turn evidence into probabilities, and their file beside a model.

Small logistic regressions say how probable it is that a source word was omitted, that a target word
was added, and that a segment has any of either. They are learnt on damage that untold makes
itself (account/self_made.py) and are kept in calibration.json in the model's directory.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from untold.errors import UntoldError

__all__ = [
    "Calibration",
    "Regression",
    "ReliabilityBin",
    "calibration_error",
    "fit_regression",
    "probability",
    "reliability",
]

_RIDGE = 1.0  # keeps weights finite where the evidence separates perfectly
_ROUNDS = 50
_TOLERANCE = 1e-8
_FORMAT = 1
_BINS = 10


@dataclass(frozen=True)
class Regression:
    """A logistic regression on standardised evidence: p = 1 / (1 + exp(-(bias + w . z)))."""

    names: tuple[str, ...]  # of the evidence
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    prior: float  # the share of positives that it was learnt with

    def log_odds(self, evidence: Float[np.ndarray, "n k"], prior: float) -> Float[np.ndarray, " n"]:
        """Computes log p/(1 - p) of each row, where a share `prior` of all rows is positive."""
        standard = (evidence - np.array(self.means)) / np.array(self.scales)
        shift = _logit(prior) - _logit(self.prior)
        return standard @ np.array(self.weights) + self.bias + shift

    @property
    def plain(self) -> tuple[tuple[float, ...], float]:
        """Returns weights and bias for evidence that is not standardised."""
        triples = zip(self.weights, self.means, self.scales, strict=True)
        weights = tuple(
            weight / scale for weight, scale in zip(self.weights, self.scales, strict=True)
        )
        return weights, self.bias - sum(w * mean / scale for w, mean, scale in triples)


@dataclass(frozen=True)
class Calibration:
    """The regressions of a model, what they were learnt from, and how good they were there."""

    omitted: Regression  # of source words
    added: Regression  # of target words
    has_omission: Regression  # of segments
    has_addition: Regression
    by_shares: Regression  # of source words, by shares alone: all that a search knows
    damaged: float  # the share of segments with damage that they were learnt with
    segments: int  # how many segments they were learnt from
    error: float  # expected calibration error of words of segments that were held out

    def words(
        self, kind: Regression, evidence: Float[np.ndarray, "n k"], damaged: float
    ) -> Float[np.ndarray, " n"]:
        """Computes log-odds of words in a text of which this share of segments is damaged."""
        return kind.log_odds(evidence, kind.prior * damaged / self.damaged)

    def to_json(self) -> str:
        """Writes all fields as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> "Calibration":
        """Reads what to_json wrote; `where` names the file in errors."""
        try:
            values = json.loads(text)
            if values.pop("format") != _FORMAT:
                raise ValueError("another version wrote it")
            for name in ("omitted", "added", "has_omission", "has_addition", "by_shares"):
                values[name] = _read_regression(values[name])
            found = cls(**values)
            if not 0 < found.damaged < 1 or not 0 <= found.error <= 1:
                raise ValueError("a value is out of its limits")
            return found
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UntoldError(
                f"{where}: not a calibration of this version ({error}): make it again with untold "
                "calibrate"
            ) from None


def fit_regression(
    names: tuple[str, ...], evidence: Float[np.ndarray, "n k"], labels: Bool[np.ndarray, " n"]
) -> Regression:
    """Fits a logistic regression by Newton's method; there must be rows of both labels."""
    if labels.all() or not labels.any():
        raise UntoldError("a calibration needs damaged and intact words: give more text")
    means, scales = evidence.mean(0), np.maximum(evidence.std(0), 1e-6)
    design = np.concatenate([(evidence - means) / scales, np.ones((len(evidence), 1))], axis=1)
    ridge = np.diag([_RIDGE] * len(names) + [0.0])
    weights = np.zeros(design.shape[1])
    weights[-1] = _logit(float(labels.mean()))
    for _ in range(_ROUNDS):
        chance = probability(design @ weights)
        gradient = design.T @ (chance - labels) + ridge @ weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + ridge
        change = np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
        weights = weights - change
        if float(np.abs(change).max()) < _TOLERANCE:
            break
    *slopes, bias = weights.tolist()
    return Regression(names, tuple(means), tuple(scales), tuple(slopes), bias, float(labels.mean()))


@dataclass(frozen=True)
class ReliabilityBin:
    """Words whose probabilities are alike: what was said of them on average, and what was true."""

    count: int
    said: float
    true: float


def reliability(
    chances: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"], bins: int = _BINS
) -> list[ReliabilityBin]:
    """Groups probabilities into bins of equal width; empty bins are left out."""
    places = np.minimum((chances * bins).astype(int), bins - 1)
    groups = [places == place for place in range(bins)]
    return [
        ReliabilityBin(int(own.sum()), float(chances[own].mean()), float(truth[own].mean()))
        for own in groups
        if own.any()
    ]


def calibration_error(chances: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> float:
    """Computes the expected calibration error: the mean over all words of |said - true| by bin."""
    found = reliability(chances, truth)
    return sum(each.count * abs(each.said - each.true) for each in found) / max(1, len(chances))


def probability(log_odds: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Inverts log p/(1 - p)."""
    return 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))


def _read_regression(values: Mapping[str, Any]) -> Regression:
    """Checks one regression: equal lengths, finite numbers, a prior between 0 and 1."""
    found = Regression(
        names=tuple(values["names"]),
        **{name: tuple(map(float, values[name])) for name in ("means", "scales", "weights")},
        bias=float(values["bias"]),
        prior=float(values["prior"]),
    )
    numbers = (*found.means, *found.scales, *found.weights, found.bias)
    if len(found.names) * 3 + 1 != len(numbers) or not np.isfinite(numbers).all():
        raise ValueError("numbers are missing or not finite")
    if len(found.means) != len(found.names) or len(found.scales) != len(found.names):
        raise ValueError("numbers are missing")
    if not 0 < found.prior < 1 or min(found.scales, default=1.0) <= 0:
        raise ValueError("a value is out of its limits")
    return found


def _logit(share: float) -> float:
    inside = min(max(share, 1e-9), 1 - 1e-9)
    return float(np.log(inside / (1 - inside)))
