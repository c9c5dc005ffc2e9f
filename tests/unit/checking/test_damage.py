"""Spans that may be deleted: of the promised sizes, never everything, never the full stop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.checking.synthetic_errors import (
    DAMAGE_KINDS,
    candidate_spans,
    frequent_words,
    is_content_word,
)

WORDS = st.lists(st.sampled_from(["the", "a", "dog", "cat", "9", ",", ".", "…", "字"]), max_size=30)
FREQUENT = frozenset({"the", "a"})


def spans_of(kind: str, words: list[str], seed: int = 1) -> list[tuple[int, int]]:
    return candidate_spans(kind, words, FREQUENT, np.random.default_rng(seed))


@given(kind=st.sampled_from(DAMAGE_KINDS), words=WORDS, seed=st.integers(0, 99))
def test_spans_leave_something_and_the_final_punctuation(
    kind: str, words: list[str], seed: int
) -> None:
    found = spans_of(kind, words, seed)
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(spans_of(kind, words, seed + 1)), "the seed gives the order"
    for start, stop in found:
        size = stop - start
        assert 0 <= start < stop <= len(words) and size < len(words)
        if not any(letter.isalnum() for letter in words[-1]):
            assert stop < len(words)
        if kind == "word":
            assert size == 1 and is_content_word(words[start], FREQUENT)
        elif kind == "phrase":
            assert 2 <= size <= 5
        elif kind == "clause":
            assert 6 <= size <= 12
        else:
            assert start >= len(words) / 2
            rest = words[stop:]
            assert not any(letter.isalnum() for word in rest for letter in word)
        if kind in ("phrase", "clause"):
            assert 3 * size <= 2 * len(words)


def test_all_spans_of_a_sentence_by_hand() -> None:
    words = ["the", "dog", "sees", "a", "cat", "."]
    assert sorted(spans_of("word", words)) == [(1, 2), (2, 3), (4, 5)]
    assert sorted(spans_of("end", words)) == [(3, 5), (4, 5)]
    assert sorted(spans_of("phrase", words)) == sorted(
        (start, start + size) for size in (2, 3, 4) for start in range(6 - size)
    )
    assert spans_of("clause", words) == []
    assert sorted(spans_of("clause", ["x"] * 9)) == [(0, 6), (1, 7), (2, 8), (3, 9)]


@pytest.mark.parametrize("words", [[], ["."], ["dog"], ["...", "."]])
@pytest.mark.parametrize("kind", DAMAGE_KINDS)
def test_nothing_can_be_taken_from_nothing(kind: str, words: list[str]) -> None:
    assert spans_of(kind, words) == []


def test_the_commonest_words_stand_for_function_words() -> None:
    text = [["the", "dog"], ["the", "cat"], ["a", "the"]]
    assert frequent_words(text, 1) == {"the"}
    assert not is_content_word("the", frozenset({"the"}))
    assert is_content_word("dog", frozenset({"the"})) and not is_content_word("–", frozenset())
