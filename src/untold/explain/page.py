"""Translations and explanations as JSON, and as a page of one file that steps through them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from untold.explain.explanation import Explanation, copy_probabilities
from untold.models.signals import CATEGORIES
from untold.translator import Translation
from untold.web import inline_page
from untold.web.pages import script_json

_LAYOUT = 1  # raise it if a reader of the current layout would fail or misread a field


def translation_record(translation: Translation) -> dict[str, Any]:
    """Converts a translation for `untold translate --json`, as docs/guide.md describes it."""
    tokens, source_tokens = translation.tokens, translation.source_tokens
    fields: dict[str, Any] = {
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "tokens": tokens,
        "source_tokens": source_tokens,
    }
    if translation.assignments is not None:  # its last row and column are those of EOS
        shares = translation.assignments[: len(tokens), : len(source_tokens)]
        fields["assignments"] = shares.astype(np.float64).round(6).tolist()
    weights = copy_probabilities(translation)
    if weights is not None:
        fields["copying"] = [_copied(row) for row in weights[: len(tokens)]]
    if translation.alternatives:
        fields["alternatives"] = [translation_record(other) for other in translation.alternatives]
    return fields


def share_document(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """Collects explanations in the layout of docs/explain.md, for JSON files and HTML pages."""
    return {
        "layout": _LAYOUT,
        "categories": list(CATEGORIES),
        "sentences": [explanation.as_record() for explanation in explanations],
    }


def share_json(explanations: Sequence[Explanation]) -> bytes:
    """Writes explanations as a JSON file."""
    text = json.dumps(share_document(explanations), ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode(errors="backslashreplace")  # as JSON writes a lone surrogate


def share_page(explanations: Sequence[Explanation]) -> bytes:
    """Draws explanations as an HTML page."""
    return html_page(share_document(explanations)).encode()


def html_page(document: Mapping[str, Any]) -> str:
    """Puts a document (docs/explain.md) into the page; its texts cannot become markup."""
    first = document["sentences"][0]["source"]["text"]
    return inline_page("explain_page.html", script_json(document), first)


def _copied(row: Float[np.ndarray, " i"]) -> dict[str, Any]:
    """Says how probable it is that a token was copied, and its likeliest origin."""
    source = int(row.argmax()) if row.any() else None
    return {"probability": round(float(row.sum()), 6), "source": source}
