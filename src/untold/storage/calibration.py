"""Calibration: regressions that turn evidence into probabilities, and their file beside a model.

Small logistic regressions say how probable it is that a source word was omitted, that a target word
was added, and that a segment has any of either. They are learnt on damage that untold makes
itself (checking/synthetic_errors.py) and are kept in calibration.json in the model's directory.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from untold.errors import UntoldError, shorten

# The evidence of words and of segments; checking/evidence.py computes it.
SOURCE_EVIDENCE = (
    "untold",  # FUTURE against PAST at the end says so, or the lexicon, which finds no link
    "uncovered",
    "redundant",  # REDUNDANT at the first step, when nothing but the source was seen
    "content",  # it has a letter or a digit
)
SHARE_EVIDENCE = ("future", "redundant")  # all that a search knows of a source word
TARGET_EVIDENCE = (
    "unexplained",  # no source word explains it: mean over its pieces
    "unexplained_piece",  # ... of the piece that is explained worst
    "unlinked",  # no source word has its link here
    "rise",  # how much became PAST while it was said
    "repeated",  # the words that explain it were PAST before
    "surprise",  # -log p of its pieces, mean
    "surprise_first",  # ... of the first piece
    "content",
)
SEGMENT_EVIDENCE = ("highest", "all", "eos", "surprise")

_RIDGE = 1.0  # keeps weights finite where the evidence separates perfectly
_ROUNDS = 50
_TOLERANCE = 1e-8
_FORMAT = 1
_BINS = 10
_LARGEST = 1e9
_EVIDENCE = {  # that each regression of a calibration weighs
    "omitted": SOURCE_EVIDENCE,
    "added": TARGET_EVIDENCE,
    "has_omission": SEGMENT_EVIDENCE,
    "has_addition": SEGMENT_EVIDENCE,
    "by_shares": SHARE_EVIDENCE,
}
# What Python raises at JSON that is cut, or whose values are missing, strange or too large.
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


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
        learnt = self.has_addition if kind is self.added else self.has_omission
        return kind.log_odds(evidence, kind.prior * damaged / learnt.prior)

    def to_json(self) -> str:
        """Writes all fields as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> "Calibration":
        """Reads what to_json wrote; `where` names the file in errors."""
        try:
            values = json.loads(text)
            if _number(values.pop("format")) != _FORMAT:
                raise ValueError("another version wrote it")
            for name, evidence in _EVIDENCE.items():
                values[name] = _read_regression(values[name], evidence)
            _check_numbers(**{name: values[name] for name in ("damaged", "segments", "error")})
            return cls(**values)
        except _DAMAGE as error:
            raise UntoldError(
                f"{where}: not a calibration of this version ({shorten(error)}): make it again "
                "with untold calibrate"
            ) from None


def fit_regression(
    names: tuple[str, ...], evidence: Float[np.ndarray, "n k"], labels: Bool[np.ndarray, " n"]
) -> Regression:
    """Fits a logistic regression by Newton's method; there must be rows of both labels."""
    if labels.all() or not labels.any():
        raise UntoldError("a calibration needs damaged and intact words: give more text")
    means, scales = evidence.mean(0), evidence.std(0)
    # What never changed tells nothing: scaled up, a new value of it would drown everything else.
    scales = np.where(scales > 1e-6, scales, 1.0)
    *slopes, bias = _newton((evidence - means) / scales, labels).tolist()
    means, scales = tuple(means.tolist()), tuple(scales.tolist())
    return Regression(names, means, scales, tuple(slopes), bias, float(labels.mean()))


def _newton(
    standard: Float[np.ndarray, "n k"], labels: Bool[np.ndarray, " n"]
) -> Float[np.ndarray, " k1"]:
    """Finds the weights of standardised evidence, and the bias, that minimise the penalised loss.

    A step is halved until the loss falls: whole steps may oscillate where few labels are true.
    """
    design = np.concatenate([standard, np.ones((len(standard), 1))], axis=1)
    ridge = np.diag([_RIDGE] * standard.shape[1] + [0.0])
    weights = np.zeros(design.shape[1])
    weights[-1] = _logit(float(labels.mean()))

    def loss(weights: np.ndarray) -> float:
        logits = design @ weights
        return float(
            (np.logaddexp(0, logits) - labels * logits).sum() + weights @ ridge @ weights / 2
        )

    for _ in range(_ROUNDS):
        chance = probability(design @ weights)
        gradient = design.T @ (chance - labels) + ridge @ weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + ridge
        change = np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
        while loss(weights - change) > loss(weights) and np.abs(change).max() > _TOLERANCE:
            change = change / 2
        weights = weights - change
        if float(np.abs(change).max()) < _TOLERANCE:
            break
    return weights


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
        ReliabilityBin(int(group.sum()), float(chances[group].mean()), float(truth[group].mean()))
        for group in groups
        if group.any()
    ]


def calibration_error(chances: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> float:
    """Computes the expected calibration error: the mean over all words of |said - true| by bin."""
    bins = reliability(chances, truth)
    return sum(one.count * abs(one.said - one.true) for one in bins) / max(1, len(chances))


def probability(log_odds: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Inverts log p/(1 - p)."""
    return 1 / (1 + np.exp(-np.clip(log_odds, -30, 30)))


def _read_regression(values: Mapping[str, Any], names: tuple[str, ...]) -> Regression:
    """Checks one regression: a finite number for each name, a prior between 0 and 1."""
    if values["names"] != list(names):
        raise ValueError("it weighs other evidence")
    regression = Regression(
        names,
        **{name: tuple(map(_number, values[name])) for name in ("means", "scales", "weights")},
        bias=_number(values["bias"]),
        prior=_number(values["prior"]),
    )
    numbers = regression.means, regression.scales, regression.weights
    if any(len(values) != len(names) for values in numbers):
        raise ValueError("numbers are missing")
    if not 0 < regression.prior < 1 or min(regression.scales) < 1 / _LARGEST:
        raise ValueError("a prior or a scale is out of its limits")
    return regression


def _check_numbers(damaged: object, segments: object, error: object) -> None:
    if not 0 < _number(damaged) < 1 or not 0 <= _number(error) <= 1:
        raise ValueError("a share is not between 0 and 1")
    if type(segments) is not int or not 1 <= segments <= _LARGEST:
        raise ValueError(f"{shorten(segments)} is not a number of segments")


def _number(value: object) -> float:
    """Refuses what JSON has beside numbers, NaN, and numbers that would overflow a sum."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= _LARGEST:  # NaN is not, either
        raise ValueError(f"{shorten(value)} is not a number of a calibration")
    return float(value)


def _logit(share: float) -> float:
    inside = min(max(share, 1e-9), 1 - 1e-9)
    return float(np.log(inside / (1 - inside)))
