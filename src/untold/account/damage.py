"""Kinds of damage: which words of a sentence are deleted, as careless translators omit them."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["DAMAGE_KINDS", "candidate_spans", "frequent_words", "is_content_word"]

DAMAGE_KINDS = ("word", "phrase", "clause", "end")
_FREQUENT = 30  # the commonest words of a text are taken for function words
_PHRASE, _CLAUSE = (2, 5), (6, 12)  # words, at least and at most


def frequent_words(sentences: Iterable[Sequence[str]], count: int = _FREQUENT) -> frozenset[str]:
    """Finds the commonest words of a text, which stand in for function words in any language."""
    counts = Counter(word for words in sentences for word in words)
    return frozenset(word for word, _ in counts.most_common(count))


def is_content_word(word: str, frequent: frozenset[str]) -> bool:
    """Tells whether a word has a letter or digit and is not among the frequent ones."""
    return word not in frequent and any(letter.isalnum() for letter in word)


def candidate_spans(
    kind: str, words: Sequence[str], frequent: frozenset[str], generator: np.random.Generator
) -> list[tuple[int, int]]:
    """Lists spans [start, stop) that may be deleted, in random order.

    `word` is one content word, `phrase` 2 to 5 words, `clause` 6 to 12 but at most two thirds of
    all, and `end` what follows some word of the second half. The last word stays if it is
    punctuation: a missing full stop would give the damage away.
    """
    stop = len(words)
    if stop and not any(letter.isalnum() for letter in words[-1]):
        stop -= 1
    if kind == "word":
        spans = [(k, k + 1) for k in range(stop) if is_content_word(words[k], frequent)]
    elif kind == "end":
        spans = [(k, stop) for k in range(max(1, (len(words) + 1) // 2), stop)]
    else:
        least, most = _PHRASE if kind == "phrase" else _CLAUSE
        most = min(most, len(words) * 2 // 3)
        sizes = range(least, most + 1)
        spans = [(k, k + size) for size in sizes for k in range(stop - size + 1)]
    spans = [span for span in spans if span != (0, len(words))]  # something must be left
    return [spans[k] for k in generator.permutation(len(spans))]
