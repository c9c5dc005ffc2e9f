"""Translations as JSON, with and without copying."""

import json

import numpy as np

from untold.explain.page import translation_record
from untold.models.signals import Signals
from untold.translator import Translation

PLAIN = Translation("a b", -0.5, -1.0, ("▁a", "▁b"), ("▁b", "▁c"))


def test_without_copying_there_is_no_such_field() -> None:
    other = Translation("c", -2.0, -3.0, ("▁c",), ("▁b", "▁c"))
    both = Translation("a b", -0.5, -1.0, ("▁a", "▁b"), ("▁b", "▁c"), (other,))
    record = json.loads(json.dumps(translation_record(both)))
    assert record["alternatives"] == [
        {
            "text": "c",
            "score": -2.0,
            "log_probability": -3.0,
            "tokens": ["▁c"],
            "source_tokens": ["▁b", "▁c"],
        }
    ]
    assert "copying" not in record and "alternatives" not in translation_record(PLAIN)


def test_every_token_has_its_chance_of_being_copied_and_from_where() -> None:
    copying = np.array([[0.75, 0.125, 0.0], [0.5, 0.25, 0.0], [0.0, 1.0, 0.0]], np.float32)
    made = Translation(
        "a b", -0.5, -1.0, ("▁a", "▁b"), ("▁b", "▁c"), signals=Signals(copying=copying)
    )
    assert json.loads(json.dumps(translation_record(made)))["copying"] == [
        {"probability": 0.0, "source": None},  # the source has no ▁a
        {"probability": 0.5, "source": 0},
    ]


def test_assignments_are_shares_of_every_source_token_before_every_token() -> None:
    """Without the row and the column of EOS, rounded, in the order past, future, redundant."""
    assignments = np.linspace(0, 1, 27, dtype=np.float32).reshape(3, 3, 3)
    signals = Signals(assignments=assignments)
    made = Translation("a b", -0.5, -1.0, ("▁a", "▁b"), ("▁b", "▁c"), signals=signals)
    found = json.loads(json.dumps(translation_record(made)))["assignments"]
    assert np.shape(found) == (2, 2, 3)
    assert found[1][0] == [round(number / 26, 6) for number in (9, 10, 11)]
    assert "assignments" not in translation_record(PLAIN)
