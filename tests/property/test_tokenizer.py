"""decode(encode(text)) == text for all text of known characters, however it is cut."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toys import BOS, EOS, PAD, UNK
from untold.config import TokenizerConfig
from untold.corpus.vocabulary import train_tokenizers

LETTERS = "abcxyz .,äß語\u00a0\u200b\u0301\U0001f600<>/s"
TEXTS = ["abc xyz abc . xyz , äß 語語 abc", "a\u00a0b \u200bz a\u0301 \U0001f600 < > / s", "zz  ab"]


@cache
def tokenizer(kind, byte_fallback=False):
    size = 40 + 256 * byte_fallback
    config = TokenizerConfig(kind=kind, size=size, byte_fallback=byte_fallback)
    return train_tokenizers(config, TEXTS * 3, ["<s> </s> <pad> <unk>"]).source


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
@given(text=st.text(LETTERS, max_size=30))
def test_known_characters_make_a_round_trip(kind, text):
    (ids,) = tokenizer(kind).encode([text])
    assert tokenizer(kind).decode(ids) == text
    assert all(i > EOS for i in ids)


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_pieces_and_ids_are_the_same_thing(byte_fallback):
    every = list(range(len(tokenizer("bpe", byte_fallback))))
    assert (
        tokenizer("bpe", byte_fallback).ids(tokenizer("bpe", byte_fallback).pieces(every)) == every
    )
    assert tokenizer("bpe").ids(["no such piece"]) == [UNK]


@given(text=st.text(LETTERS, max_size=30), seed=st.integers(0, 2**63), p=st.floats(0, 0.99))
def test_dropout_cuts_the_same_text(text, seed, p):
    (ids,) = tokenizer("bpe").encode_sampled([text], p, seed)
    assert tokenizer("bpe").decode(ids) == text
    assert ids == tokenizer("bpe").encode_sampled([text], p, seed)[0]


@given(text=st.text(max_size=30))
def test_without_dropout_any_text_is_cut_as_by_sentencepiece(text):
    for byte_fallback in (False, True):
        cutter = tokenizer("bpe", byte_fallback)
        assert cutter.encode_sampled([text], 0.0, 1) == cutter.encode([text])


@given(text=st.text(max_size=30) | st.sampled_from(["</s>", "<s>", "<pad>"]).map(lambda t: t * 2))
def test_any_text_with_bytes_makes_a_round_trip_without_control_tokens(text):
    (ids,) = tokenizer("bpe", True).encode([text])
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    one_line = text.replace("\n", " ").replace("\r", " ").replace("▁", " ")
    assert tokenizer("bpe", True).decode(ids) == one_line
