"""Very long lines and words: every stage takes time in proportion to their length."""

import random
import time
from functools import cache

import pytest

from untold.config import TokenizerConfig
from untold.corpus.tokenizer import LONGEST_WORD, drop_merges
from untold.corpus.vocabulary import train_tokenizers
from untold.corpus.words import words, words_between_spaces

KINDS = ("bpe", "unigram", "char", "word")
TEXTS = ["the cat sat on the mat", "語 語語 e\u0301 😀 a b a b", "aa aaa aaaa"] * 4
LONG = {
    "letters": "a",
    "words without spaces": "thecatsatonthemat",
    "spaces": " ",
    "Chinese": "語",
    "emoji": "😀",
    "combining marks": "e\u0301\u0301",
    "short words": "a b ",
    "unknown characters": "☃",
}


@cache
def tokenizer(kind, byte_fallback=False):
    size = 60 + 256 * byte_fallback
    config = TokenizerConfig(kind=kind, size=size, byte_fallback=byte_fallback)
    return train_tokenizers(config, TEXTS, TEXTS).source


class Counted(dict):
    """Counts how often it is asked."""

    questions = 0

    def get(self, key, default=None):
        self.questions += 1
        return super().get(key, default)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", LONG)
def test_merging_with_dropout_takes_as_many_steps_as_the_text_is_long(name, dropout, monkeypatch):
    monkeypatch.setattr("untold.corpus.tokenizer.LONGEST_WORD", 100)
    pieces = tokenizer("bpe")
    scores = Counted({pieces.pieces([i])[0]: -float(i) for i in range(4, len(pieces))})

    def steps(length):
        scores.questions = 0
        text = (LONG[name] * length)[:length]
        found = "".join(drop_merges(text, scores, dropout, random.Random(1)))
        assert found == "▁" + text.replace(" ", "▁")
        return scores.questions

    assert steps(3_000) < 6.6 * max(1, steps(500))


def test_words_up_to_the_limit_are_merged_as_by_sentencepiece():
    text = ("thecatsat" * LONGEST_WORD)[: LONGEST_WORD - 1]  # and the space before it
    for each in (text, f"{text} {text}", "語" * (LONGEST_WORD - 1)):
        assert tokenizer("bpe").encode_sampled([each], 0.0, 1) == tokenizer("bpe").encode([each])


def test_longer_words_are_cut_and_come_back_whole():
    text = "thecatsat" * LONGEST_WORD
    for dropout in (0.0, 0.1):
        (ids,) = tokenizer("bpe").encode_sampled([text[:3_000]], dropout, 1)
        assert tokenizer("bpe").decode(ids) == text[:3_000]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_a_hundred_thousand_characters_are_encoded_within_seconds(kind, byte_fallback):
    """All eight take about a second together; one that took quadratic time would take hours."""
    encoder, start = tokenizer(kind, byte_fallback), time.perf_counter()
    for text in ((unit * 100_000)[:100_000] for unit in LONG.values()):
        (ids,) = encoder.encode([text])
        assert len(encoder.pieces(ids)) == len(ids)
        if byte_fallback and kind != "word":  # a vocabulary of words knows no second space
            assert encoder.decode(ids) == text
    assert time.perf_counter() - start < 60


class CountedPieces(list):
    """Counts the pieces that are looked at."""

    looked_at = 0

    def __iter__(self):
        self.looked_at += len(self)
        return super().__iter__()

    def __getitem__(self, key):
        self.looked_at += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("find", [words_between_spaces, words])
def test_words_look_at_every_piece_a_few_times(name, find):
    for byte_fallback in (False, True):
        encoder = tokenizer("bpe", byte_fallback)
        pieces = CountedPieces(encoder.pieces(encoder.encode([LONG[name] * 3_000])[0]))
        found = find("", pieces)
        assert pieces.looked_at <= 10 * len(pieces)
        assert sum(word.pieces.stop - word.pieces.start for word in found) == (
            len(pieces) if name != "spaces" else 0
        )
