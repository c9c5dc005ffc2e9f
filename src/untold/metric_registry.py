"""The registry of metrics: evaluation, comparison, rewards and validation look them up here.

It stands below the configuration, which checks the names of rewards. A metric is a class;
evaluation/metrics.py says what it must have.
"""

from typing import Any

from untold.registry import Registry

__all__ = ["METRICS", "metric_has", "metrics_with"]

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
        "multi-bleu": "untold.evaluation.sacrebleu_metrics:MultiBleu",
    },
)


def metric_has(name: str, method: str) -> bool:
    """Says if a metric of this name exists and has a method, such as `sentence_scores`."""
    return name in METRICS and hasattr(METRICS[name], method)


def metrics_with(method: str) -> tuple[str, ...]:
    """Lists the metrics that have a method."""
    return tuple(name for name in METRICS.names if metric_has(name, method))
