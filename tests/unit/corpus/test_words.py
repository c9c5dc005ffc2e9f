"""Compares words with those of sentencepiece itself, and with examples by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.config import TokenizerConfig
from untold.corpus.tokenizer import Tokenizer
from untold.corpus.vocabulary import train_tokenizers
from untold.corpus.words import Word, byte_piece, piece_text, words, words_between_spaces

TEXTS = [
    "The neighbours' dog sleeps , doesn't it ?",
    "the dog sleeps .",
    "Straßenbahnhaltestelle, naïve café",
    "两 天 前 ， 我 哥哥 排 了 三 个 小时 队 。",
    "他在Paris买了iPhone 15手机。",
    "هذا الرجل يقرأ كتابا",
]


def tokenizer(kind: str, byte_fallback: bool) -> Tokenizer:
    settings = {"kind": kind, "size": 450 if byte_fallback else 150, "byte_fallback": byte_fallback}
    return train_tokenizers(TokenizerConfig.model_validate(settings), TEXTS, TEXTS).source


TOKENIZERS = [
    tokenizer(kind, fallback) for kind in ("bpe", "unigram") for fallback in (False, True)
]


def covers(found: tuple[Word, ...], pieces: list[str]) -> bool:
    edges = [0, *(word.pieces.stop for word in found)]
    return [word.pieces.start for word in found] == edges[:-1] and edges[-1] == len(pieces)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("text", [*TEXTS, "", " ", "   ", " a", "a ", "  a   dog  ", "a ☃☃ b☃ ☃"])
def test_one_word_for_each_between_spaces(tokenizer: Tokenizer, text: str) -> None:
    pieces = tokenizer.pieces(tokenizer.encode([text])[0])
    expected = [word for word in text.split(" ") if word]
    found = words_between_spaces(text, pieces)
    assert [word.text for word in found] == expected
    for word in found:
        assert word.read_as == word.text or "⁇" in word.read_as
        assert word.characters and text[slice(*word.characters)] == word.text
    assert not found or covers(found, pieces)


@given(st.text(st.sampled_from("  aegdothsln.天哥iP☃é"), max_size=30))
def test_any_text_keeps_its_words_and_all_its_pieces(text: str) -> None:
    for each in TOKENIZERS:
        pieces = each.pieces(each.encode([text])[0])
        strict, shown = words_between_spaces(text, pieces), words(text, pieces)
        assert len(strict) == len([word for word in text.split(" ") if word])
        assert not strict or (covers(strict, pieces) and covers(shown, pieces))
        starts = [{word.pieces.start for word in found} for found in (strict, shown)]
        assert starts[0] <= starts[1]
        assert all(word.text and word.read_as for word in shown)
        for word in shown:
            assert word.characters is None or text[slice(*word.characters)] == word.text


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], []),
        (["▁"], []),
        (["▁the", "▁d", "og"], [(0, 1), (1, 3)]),
        (["▁", "d", "og", "▁", "."], [(0, 3), (3, 5)]),  # a lone ▁ belongs to the word after it
        (["▁a", "▁", "▁b", "▁"], [(0, 1), (1, 4)]),  # two spaces; at the end
        (["no", "▁prefix"], [(0, 1), (1, 2)]),
    ],
)
def test_pieces_by_hand(pieces: list[str], expected: list[tuple[int, int]]) -> None:
    found = words_between_spaces("", pieces)
    assert [(word.pieces.start, word.pieces.stop) for word in found] == expected


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["▁他", "在", "P", "ar", "is", "买", "了"], ["他", "在", "Paris", "买", "了"]),
        (["▁", "哥哥", "▁排", "队", "。"], ["哥哥", "排", "队", "。"]),
        (["▁カ", "タ", "カナ"], ["カ", "タ", "カナ"]),
        (["▁", "<0xE9>", "<0xBE>", "<0x98>", "<0xE9>", "<0x9D>", "<0x90>", "x"], ["龘", "靐", "x"]),
        (["▁na", "<0xC3>", "<0xAF>", "ve"], ["naïve"]),
        (["▁هذا", "▁الر", "جل"], ["هذا", "الرجل"]),
        (["▁한", "국", "▁사람"], ["한국", "사람"]),  # Korean has spaces
        (["▁", "<unk>", "▁a"], ["⁇", "a"]),
        (["▁", "<0xFF>"], ["�"]),  # not the bytes of any character
    ],
)
def test_words_as_they_are_shown(pieces: list[str], expected: list[str]) -> None:
    assert [word.text for word in words("", pieces)] == expected


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("  a  b", ["▁a", "▁b"], [(2, 3), (5, 6)]),
        ("再见世界", ["▁再见", "世界"], [(0, 2), (2, 4)]),
        ("☃☃  .", ["▁", "<unk>", "▁."], [(0, 2), (4, 5)]),  # unknown, but a word between spaces
        ("ﬁn d", ["▁fi", "n", "▁d"], [(0, 2), (3, 4)]),  # as it is written, not as it was read
        ("再☃", ["▁再", "<unk>"], [None, None]),  # what is unknown has no place
        ("fin d!", ["▁fin", "d"], [None]),  # the text has more than its words
        ("", ["▁a"], [None]),
    ],
)
def test_places_in_the_text(text: str, pieces: list[str], expected: list) -> None:
    """A word has its place if the words are all that is in the text; else none has."""
    assert [word.characters for word in words(text, pieces)] == expected


def test_pieces_of_bytes_are_written_without_doubt():
    """Whatever a text is cut into, its pieces give it back, and no two bytes are written alike."""
    text = " naïve ▁ <0x41> 日本🙂"
    raw = text.encode()
    for cut in range(1, len(raw)):
        pieces = [byte_piece(raw[:cut]), byte_piece(raw[cut:])]
        assert piece_text(pieces) == text.strip()
    assert byte_piece(b" cat") == "▁cat"
    assert byte_piece("▁".encode()) == "<0xE2><0x96><0x81>"
    assert byte_piece(b"\xe6\x97") == "<0xE6><0x97>"
    assert byte_piece(b"<0x41>") == "<0x3C>0x41>"
