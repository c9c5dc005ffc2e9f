"""The registry of metrics.

`untold evaluate`, `untold compare`, the rewards of sequence-level training and validation look up
their metrics here. It stands below the configuration, which checks the names of rewards. A metric
is a class; evaluation/metrics.py says what it must have.
"""

from typing import Any

from untold.registry import Registry

__all__ = ["METRICS", "metrics_with"]

METRICS: Registry[Any] = Registry(
    "metric",
    "untold.metrics",
    {
        "bleu": "untold.evaluation.sacrebleu_metrics:Bleu",
        "gleu": "untold.evaluation.gleu:Gleu",
        "chrf": "untold.evaluation.sacrebleu_metrics:Chrf",
        "ter": "untold.evaluation.sacrebleu_metrics:Ter",
        "rouge": "untold.evaluation.rouge:Rouge",
        "cdr": "untold.evaluation.cdr:Cdr",
    },
)


def metrics_with(method: str) -> tuple[str, ...]:
    """Lists the metrics that have an optional method, such as `sentence_scores`."""
    return tuple(name for name in METRICS.names if hasattr(METRICS[name], method))
