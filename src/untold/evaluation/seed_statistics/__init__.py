"""Statistics over seeds and sentences: means with intervals, and the sign-flip test of pairs."""

from untold.evaluation.seed_statistics.paired_seeds import (
    SeedDifference,
    SeedSummary,
    compare_seeds,
    summarise_seeds,
)
from untold.evaluation.seed_statistics.sign_flip import (
    EXACT_UP_TO,
    SignFlip,
    SignPatterns,
    sign_flip_test,
)
from untold.evaluation.seed_statistics.student_t import MeanInterval, mean_interval, t_quantile

__all__ = [
    "EXACT_UP_TO",
    "MeanInterval",
    "SeedDifference",
    "SeedSummary",
    "SignFlip",
    "SignPatterns",
    "compare_seeds",
    "mean_interval",
    "sign_flip_test",
    "summarise_seeds",
    "t_quantile",
]
