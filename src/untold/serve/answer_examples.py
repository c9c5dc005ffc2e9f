"""Shows one short answer of each route, for the documentation of the API."""

from typing import Any

_SCORES = {"score": -0.31, "log_probability": -0.62}
_TRANSLATION = {
    "text": "Das Kind liest ein Buch .",
    **_SCORES,
    "tokens": ["▁Das", "▁Kind", "▁liest", "▁ein", "▁Buch", "▁."],
    "source_tokens": ["▁The", "▁child", "▁reads", "▁a", "▁book", "▁."],
    "alternatives": [],
    "trace": None,
}
_EVENT = """event: token
data: {"index": 0, "text": "Das", "words": ["Das"], "kept": 0, "revised": false, "complete": false,
data: "shares": [[0.02, 0.97, 0.01], [0.01, 0.98, 0.01]]}
"""
_ENGLISH, _GERMAN = {"code": "en", "name": "English"}, {"code": "de", "name": "German"}
ANSWERS: dict[str, Any] = {
    "models": {
        "default": "en-de",
        "models": [
            {
                "name": "en-de",
                "source_language": "en",
                "target_language": "de",
                "separates": True,
                "calibrated": True,
                "copies": False,
                "examples": ["The child reads a book ."],
            }
        ],
        "limits": {"characters": 2000, "texts": 64, "beam": 16},
    },
    "translate": {"model": "en-de", "translations": [_TRANSLATION]},
    "explain": {
        "model": "en-de",
        "layout": 1,
        "categories": ["past", "future", "redundant"],
        "sentences": [
            {
                "source": {"text": "A book .", "language": "en", "words": ["A", "book", "."]},
                "target": {"text": "Ein .", "language": "de", "words": ["Ein", "."], "given": True},
                **_SCORES,
                "shares": [[[0.02, 0.97, 0.01], [0.01, 0.98, 0.01], [0.01, 0.95, 0.04]]],
                "links": [{"source": 0, "target": 0, "probability": 0.97}],
            }
        ],
    },
    "check": {
        "model": "en-de",
        "segments": 1,
        "unchecked": {},
        "findings": 1,
        "results": [
            {
                "file": "",
                "line": 1,
                "name": "",
                "source": {"text": "A book .", "any": 0.7, "words": ["A", "book", "."]},
                "target": {"text": "Ein .", "any": 0.1, "words": ["Ein", "."]},
                "findings": [{"kind": "omission", "probability": 0.63, "text": "book"}],
            }
        ],
        "damages": [],
    },
    "stream": _EVENT,
}
# A body, if there is one, and the answer to it.
LIBRE_EXAMPLES: dict[str, tuple[Any, Any]] = {
    "translate": (
        {"q": "The child reads a book .", "source": "en", "target": "de"},
        {"translatedText": "Das Kind liest ein Buch ."},
    ),
    "detect": ({"q": "The child reads a book ."}, [{"confidence": 100.0, "language": "en"}]),
    "languages": (None, [_ENGLISH | {"targets": ["de"]}, _GERMAN | {"targets": []}]),
    "frontend/settings": (
        None,
        {"charLimit": 2000, "language": {"source": _ENGLISH, "target": _GERMAN}},
    ),
    "health": (None, {"status": "ok"}),
}
