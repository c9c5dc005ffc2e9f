"""The text of a corpus is read once, however often it is asked for."""

from pathlib import Path

import pytest

from untold.config import CorpusConfig
from untold.corpus import corpora as module
from untold.corpus.corpora import CorpusText, read_pairs
from untold.errors import UntoldError

HOSTILE = ["", " ", 'a "b" \\n', "x\u2028y", "x\x85y\x0b", "中文 😀", "\ufeff", "tab\there", "r\rr"]


@pytest.fixture
def corpora(tmp_path) -> list[CorpusConfig]:
    text = "".join(f"{line}\n" for line in HOSTILE)
    (tmp_path / "a").write_bytes(text.encode())
    (tmp_path / "b").write_bytes("".join(f"{line}\n" for line in HOSTILE[::-1]).encode())
    (tmp_path / "t.tsv").write_bytes(b"X\tY\n")
    return [CorpusConfig(source="a", target="b"), CorpusConfig(path="t.tsv")]


def test_every_pass_gives_what_the_readers_give(tmp_path, corpora):
    expected = [pair for corpus in corpora for pair in read_pairs(corpus, tmp_path)]
    assert len(expected) == len(HOSTILE) + 1
    with CorpusText(corpora, tmp_path, tmp_path / "run") as text:
        assert list(text.pairs()) == expected
        assert list(text.pairs()) == expected


def test_the_files_are_read_once_and_nothing_stays(tmp_path, corpora, monkeypatch):
    calls: list[CorpusConfig] = []

    def counted(corpus: CorpusConfig, root: Path):
        calls.append(corpus)
        return read_pairs(corpus, root)

    monkeypatch.setattr(module, "read_pairs", counted)
    with CorpusText(corpora, tmp_path, tmp_path / "run") as text:
        assert calls == []
        for _ in range(3):
            list(text.pairs())
    assert calls == corpora
    assert list((tmp_path / "run").iterdir()) == []


def test_a_corpus_that_cannot_be_read_is_an_error_in_every_pass(tmp_path):
    missing = [CorpusConfig(path="nothing.tsv")]
    with CorpusText(missing, tmp_path, tmp_path / "run") as text:
        for _ in range(2):
            with pytest.raises(UntoldError, match="no such file"):
                list(text.pairs())
