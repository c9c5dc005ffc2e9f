"""Learning a vocabulary: no text kills the process, and Ctrl-C stops it at once."""

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from toys import UNK
from untold.config import TokenizerConfig
from untold.corpus import vocabulary as module
from untold.corpus.tokenizer import LONGEST_WORD
from untold.corpus.vocabulary import cut_long_text, has_long_word, train_tokenizers
from untold.errors import UntoldError

KINDS = ("bpe", "unigram", "char", "word")
NORMAL = ["the cat sat on the mat", "a dog runs , and runs again"] * 5
HOSTILE = {
    "a long word": "a" * 70_000,
    "a long word of many letters": "".join("abcdefgh"[i * i % 7] for i in range(70_000)),
    "a long Chinese word": "語" * 70_000,
    "a long line": "ab cd " * 20_000,
    "spaces": " " * 100_000,
    "signs for spaces": "▁" * 70_000,
    "NUL": "a\0b \0",
    "tabs": "a\tb\t\t",
    "line breaks": "a\nb\r\n\nc\r",
    "reserved characters": "▁ ▅ a▁b a▅b \ufffd",
    "private and unassigned characters": "\ue000\U000f0000\U0010ffff\ufffe\u0378\U000e0fff",
    "emoji": "👨‍👩‍👧‍👦 🏳️‍🌈",
    "combining marks": "e" + "\u0301" * 2_000,
    "forgeries": "<s> </s> <unk> <pad> <0x00> <0xFF>",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f\u202e\u2028\ufeff",
}


def learn(texts, kind="bpe", **given):
    config = TokenizerConfig.model_validate({"kind": kind, "size": 400} | given)
    return train_tokenizers(config, texts, []).source


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_no_line_kills_the_process(kind, byte_fallback):
    tokenizer = learn([*NORMAL, *HOSTILE.values()], kind, byte_fallback=byte_fallback)
    assert UNK not in tokenizer.encode([NORMAL[0]])[0]
    for ids in tokenizer.encode(list(HOSTILE.values())):
        tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("text", ["x", "\0", "▁", "▅", "\ufffd", "<s>", "a" * 70_000])
def test_no_text_alone_kills_the_process(kind, text):
    try:
        learn([text], kind)
    except UntoldError as error:
        assert "\n" not in str(error)


def test_too_many_characters_for_the_vocabulary_are_counted():
    lines = [" ".join(map(chr, range(k, k + 500))) for k in range(0x10000, 0x10000 + 20_000, 500)]
    with pytest.raises(UntoldError, match=r"tokenizer\.size = 400: .* raise .* at least 20005"):
        learn(lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [16, 260])
def test_bytes_need_their_places(kind, size):
    with pytest.raises(UntoldError, match=f"size = {size}: .* raise tokenizer.size above 260"):
        learn(NORMAL, kind, size=size, byte_fallback=True)


def test_characters_of_a_long_word_are_in_the_vocabulary():
    tokenizer = learn([*NORMAL, "x" * 70_000 + "yz" * 10, "q" * 200_000 + " ▅ w"], "char")
    assert UNK not in tokenizer.encode(["xyzqw"])[0]


def test_both_languages_count_in_a_huge_corpus(monkeypatch):
    """sentencepiece takes the first sentences only, and the sources come first."""
    monkeypatch.setattr(module, "_SENTENCES_ENOUGH", 202)
    config = TokenizerConfig(kind="char", size=40)
    both = train_tokenizers(config, ["abc"] * 300, ["xyz"] * 300)
    assert both.source.encode(["abcxyz"])[0].count(UNK) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_normal_text_gives_the_vocabulary_of_sentencepiece_itself(kind, monkeypatch):
    seen, learn_vocabulary = [], module.learn_vocabulary

    def noted(texts, options):
        seen.append(options)
        return learn_vocabulary(texts, options)

    monkeypatch.setattr(module, "learn_vocabulary", noted)
    texts = [*NORMAL, " two  spaces ", "語 語語", "word " * 150, "", "a▁b", "\t", "nul \0 here"]
    learnt, itself = learn(texts, kind).model, io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=itself, **seen[0]
    )
    assert learnt == itself.getvalue()


def test_normal_text_is_learnt_from_as_it_is():
    for text in (*NORMAL, " two  spaces ", "", "語" * LONGEST_WORD, "word " * 200, "a\tb\n"):
        assert list(cut_long_text(text)) == [text]
        assert not has_long_word(text)


@pytest.mark.parametrize("kind", KINDS)
def test_cutting_a_line_at_spaces_changes_no_vocabulary(kind, monkeypatch):
    words = [f"{'xyz'[k % 3]}{k}" for k in range(900)]
    lines = [" ".join(words), "  ".join(words[::-1])]
    assert all(len(list(cut_long_text(line))) > 3 for line in lines)
    cut = learn(lines, kind).model
    monkeypatch.setattr(module, "LONGEST_WORD", 10_000)
    assert learn(lines, kind).model == cut


def test_a_second_copy_of_a_corpus_costs_unigram_no_more_than_the_first():
    """With the copies unparted it took half a minute, and for twice as much two minutes."""
    copy = [f"{k * k} has {k} as its root , and {k + 1} comes next" for k in range(1_000)]
    start = time.perf_counter()
    learn([*copy, "."], "unigram")
    middle = time.perf_counter()
    learn([*copy, *copy, "."], "unigram")
    assert time.perf_counter() - middle < 10 * (middle - start) + 3


BLANKS = {ord(blank): None for blank in " ▁▅"}
WORDS = st.builds(
    lambda text, times: text * times, st.text("ab語 ▁▅", max_size=9), st.integers(0, 2_000)
)


@given(text=st.lists(WORDS, max_size=3).map("".join))
def test_cutting_loses_no_kind_of_character_and_leaves_nothing_long(text):
    stretches = list(cut_long_text(text))
    assert set("".join(stretches).translate(BLANKS)) == set(text.translate(BLANKS))
    for stretch in stretches:
        assert len(stretch) <= LONGEST_WORD
    longest = max(map(len, text.replace("▁", " ").split(" ")))
    assert has_long_word(text) == (longest > LONGEST_WORD)


def test_a_dying_sentencepiece_is_one_line(monkeypatch):
    """The control of the sweeps above: uncut words do kill it."""
    monkeypatch.setattr(module, "LONGEST_WORD", 1 << 20)
    with pytest.raises(
        UntoldError, match=r"broke down .*65536 vs\. 65535.*: choose another"
    ) as error:
        learn([*NORMAL, "a" * 70_000])
    assert "\n" not in str(error.value)


def test_what_the_texts_raise_comes_out_as_it_is():
    def texts(error):
        yield from NORMAL * 1_000
        raise error

    for error in (UntoldError("corpus:3:7: byte 0xff is not UTF-8"), OSError(5, "broken disk")):
        with pytest.raises(type(error)) as raised:
            learn(texts(error))
        assert raised.value is error


def test_a_lone_surrogate_in_the_training_text_is_named():
    with pytest.raises(UntoldError, match=r"text 11 .*U\+D800.* character 2"):
        learn([*NORMAL, "a\ud800"])


def children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def wait_until(is_true, seconds=20.0):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def test_a_killed_child_is_one_line_about_memory(monkeypatch):
    killed = subprocess.CompletedProcess([], -signal.SIGKILL, b"")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: killed)
    with pytest.raises(UntoldError, match="ran out of memory"):
        learn(NORMAL)


SLOW = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
from untold.config import TokenizerConfig
from untold.corpus.vocabulary import train_tokenizers
lines = [(f"{k} abc{k % 7}" * 3000)[:9999] for k in range(400)]
train_tokenizers(TokenizerConfig(kind="unigram", size=400), lines, lines)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_learning_at_once_and_leaves_no_process(number):
    run = subprocess.Popen([sys.executable, "-c", SLOW], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: children(run.pid))
        (child,) = children(run.pid)
        time.sleep(1.0)
        assert run.poll() is None, "the control: it takes longer than a second"
        run.send_signal(number)
        assert run.wait(timeout=10) == -number
        wait_until(lambda: not Path(f"/proc/{child}").exists(), seconds=10)
    finally:
        run.kill()
        run.wait()
