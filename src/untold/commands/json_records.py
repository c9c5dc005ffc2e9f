"""Translations as JSON: what `untold translate --json` and `untold score --json` print."""

from typing import Any

import numpy as np
from jaxtyping import Float

from untold.introspection.copies import said_by_copying
from untold.translator import Translation

__all__ = ["translation_record"]


def translation_record(translation: Translation) -> dict[str, Any]:
    """By name, as docs/guide.md has it."""
    fields: dict[str, Any] = {
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "tokens": translation.tokens,
        "source_tokens": translation.source_tokens,
    }
    weights = said_by_copying(translation)
    if weights is not None:
        fields["copying"] = [_copied(row) for row in weights[: len(translation.tokens)]]
    if translation.alternatives:
        fields["alternatives"] = [translation_record(each) for each in translation.alternatives]
    return fields


def _copied(row: Float[np.ndarray, " i"]) -> dict[str, Any]:
    """How likely a token was to be said by copying, and from which source token above all."""
    source = int(row.argmax()) if row.any() else None
    return {"probability": round(float(row.sum()), 6), "source": source}
