"""What counts as a word in each of the ways, and what is refused."""

import importlib.util
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.alignment.aligners import refuse_unsegmented, splitter
from untold.config import Splitting
from untold.errors import UntoldError

WAYS: list[Splitting] = ["blank", "word", "character"]
if importlib.util.find_spec("rjieba"):
    WAYS.append("jieba")


def test_words_between_blanks_are_left_alone() -> None:
    assert splitter("blank")(" don't  stop,now ! ") == ["don't", "stop,now", "!"]


def test_marks_stand_alone_but_not_inside_words() -> None:
    found = splitter("word")("“Don't stop,” she said: 3.5 well-known U.S. things..")
    assert " ".join(found) == "“ Don't stop , ” she said : 3.5 well-known U.S . things . ."


def test_characters_of_unspaced_scripts_are_words() -> None:
    found = splitter("character")("我爱BERT模型 2 号。")
    assert " ".join(found) == "我 爱 BERT 模 型 2 号 。"


@given(st.text(max_size=40))
def test_no_word_is_empty_or_has_a_blank_and_no_letter_is_lost(text: str) -> None:
    for way in WAYS:
        words = splitter(way)(text)
        assert " ".join(words).split() == words
        assert "".join(words) == "".join(text.split()), way


@pytest.mark.skipif("jieba" not in WAYS, reason="rjieba is not installed (extra zh)")
def test_jieba_cuts_chinese_into_words() -> None:
    assert splitter("jieba")("我们的 新家有电梯。") == ["我们", "的", "新家", "有", "电梯", "。"]


def test_without_rjieba_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(UntoldError, match=r"pip install 'untold\[zh\]'"):
        splitter("jieba")


def test_chinese_without_blanks_is_not_taken_for_words() -> None:
    texts = ["我们的新家有一台电梯。", "你什么时候看见过冰雹吗？"]
    for way in ("blank", "word"):
        with pytest.raises(UntoldError, match=r"the target side .* choose jieba or character"):
            refuse_unsegmented(texts, way, "target")
    refuse_unsegmented(texts, "character", "target")
    refuse_unsegmented(["我们 的 新家 有 一 台 电梯 。", "plain words"], "blank", "source")
    refuse_unsegmented(["no such script", ""], "blank", "source")
