"""Tokenizers and stores of a run: made once, found again, made anew when anything changed."""

import itertools
from pathlib import Path

import pytest

from toys import toy_config, write_corpus
from untold.corpus import corpora as corpus_text
from untold.corpus import vocabulary
from untold.corpus.corpora import CorpusText, Pair
from untold.errors import UntoldError
from untold.training import data as module
from untold.training.data import prepare_data


def prepare_tokenizers(config, run):
    with CorpusText(config.data.train, Path(config.data.root), run) as text:
        return module.prepare_tokenizers(config, text, run)


@pytest.fixture
def root(tmp_path):
    return write_corpus(tmp_path / "corpus")


def made(monkeypatch):
    """Counts how often a tokenizer is learnt."""
    calls, learn = [], module.train_tokenizers
    monkeypatch.setattr(module, "train_tokenizers", lambda *given: calls.append(1) or learn(*given))
    return calls


def test_a_tokenizer_is_learnt_once(root, tmp_path, monkeypatch):
    calls = made(monkeypatch)
    first = prepare_tokenizers(toy_config(root), tmp_path / "run")
    again = prepare_tokenizers(toy_config(root, tokenizer={"dropout": 0.1}), tmp_path / "run")
    assert (len(calls), first.fingerprint) == (1, again.fingerprint)


def test_other_settings_or_data_make_another(root, tmp_path, monkeypatch):
    calls = made(monkeypatch)
    prepare_tokenizers(toy_config(root), tmp_path / "run")
    prepare_tokenizers(toy_config(root, tokenizer={"size": 35}), tmp_path / "run")
    prepare_tokenizers(toy_config(root, data={"lowercase": True}), tmp_path / "run")
    prepare_tokenizers(toy_config(write_corpus(root, seed=2)), tmp_path / "run")
    assert len(calls) == 4


def test_a_damaged_one_is_learnt_again(root, tmp_path, monkeypatch):
    first = prepare_tokenizers(toy_config(root), tmp_path / "run")
    path = tmp_path / "run" / "tokenizer" / "joint.model"
    path.write_bytes(path.read_bytes()[:-1])
    calls = made(monkeypatch)
    assert prepare_tokenizers(toy_config(root), tmp_path / "run").fingerprint == first.fingerprint
    assert len(calls) == 1


def test_lower_case_reaches_the_vocabulary_and_the_ids(tmp_path):
    root = write_corpus(tmp_path / "corpus")
    for name in ("train.src", "train.tgt"):
        (root / name).write_text((root / name).read_text().upper())
    config = toy_config(root, data={"lowercase": True})
    tokenizers = prepare_tokenizers(config, tmp_path / "run")
    assert not any(c.isupper() for piece in tokenizers.source.pieces(range(4, 20)) for c in piece)
    store = prepare_data(config, tokenizers, tmp_path / "run").train
    first = (root / "train.src").read_text().split("\n")[0]
    assert tokenizers.source.decode(store.sides[0][0].tolist()) == first.lower()


def test_what_is_kept_and_dropped_is_said(root, tmp_path, caplog):
    with open(root / "train.src", "a") as source, open(root / "train.tgt", "a") as target:
        print("", file=source)
        print("abc", file=target)
    caplog.set_level("INFO", "untold")
    config = toy_config(root)
    tokenizers = prepare_tokenizers(config, tmp_path / "run")
    data = prepare_data(config, tokenizers, tmp_path / "run")
    assert caplog.messages == [
        "training data: 60 of 61 pairs kept (1 empty dropped)",
        "validation data: 3 of 3 pairs kept",
    ]
    assert data.fingerprints().keys() == {"train", "valid"}
    assert data.train.where(59).endswith("train.src:60")
    assert [source for source, _ in data.valid_pairs] == (root / "valid.src").read_text().split(
        "\n"
    )[:3]


def test_words_that_are_cut_for_the_vocabulary_are_said(root, tmp_path, caplog):
    with open(root / "train.src", "a") as source, open(root / "train.tgt", "a") as target:
        print("a", file=source)
        print("b" * 1_001, file=target)
    caplog.set_level("INFO", "untold")
    prepare_data(toy_config(root), None, tmp_path / "run")
    assert caplog.messages[0] == (
        "the vocabulary was learnt from words of at most 1,000 characters: longer ones were cut "
        f"(lines: 1, first: {root / 'train.src'}:61)"
    )


def test_bad_utf8_is_not_blamed_on_the_vocabulary(root, tmp_path):
    with open(root / "train.tgt", "ab") as target, open(root / "train.src", "a") as source:
        target.write(b"\xff\n")
        print("a", file=source)
    with pytest.raises(UntoldError, match=r"train\.tgt:61:1: byte 0xff is not UTF-8"):
        prepare_data(toy_config(root), None, tmp_path / "run")


def test_fingerprints_follow_the_data(root, tmp_path):
    config = toy_config(root)
    tokenizers = prepare_tokenizers(config, tmp_path / "run")

    def fingerprints():
        return prepare_data(config, tokenizers, tmp_path / "run").fingerprints()

    before = fingerprints()
    assert fingerprints() == before
    (root / "valid.tgt").write_text((root / "valid.tgt").read_text().replace("a", "b"))
    after = fingerprints()
    assert (after["train"], after["valid"] != before["valid"]) == (before["train"], True)


def test_no_corpus_is_an_error(tmp_path):
    with pytest.raises(UntoldError, match="name the files to train on"):
        prepare_tokenizers(toy_config(tmp_path, data={"train": []}), tmp_path)


def test_every_corpus_is_read_once_for_tokenizers_stores_and_validation(
    root, tmp_path, monkeypatch
):
    read, read_pairs = [], corpus_text.read_pairs
    monkeypatch.setattr(
        corpus_text, "read_pairs", lambda *given: read.append(given[0]) or read_pairs(*given)
    )
    config = toy_config(root, tokenizer={"joint": False, "size": 35})
    data = prepare_data(config, None, tmp_path / "run")
    assert read == [*config.data.train, config.data.valid]
    assert len(data.valid_pairs) == 3
    again = prepare_data(config, None, tmp_path / "run")
    assert again.tokenizers.fingerprint == data.tokenizers.fingerprint
    assert read[2:] == [config.data.valid], "a prepared corpus is opened; validation needs its text"


@pytest.mark.parametrize("joint", [True, False])
def test_a_large_corpus_gives_lines_from_all_over_it_to_the_vocabulary(
    tmp_path, monkeypatch, joint
):
    """A second corpus of other letters, behind the lines that are enough, is learnt from, too."""
    for side in ("src", "tgt"):
        for name, word in (("first", "abc"), ("second", "xyz")):
            (tmp_path / f"{name}.{side}").write_text(f"{word}\n" * 300)
    corpora = [{"source": f"{n}.src", "target": f"{n}.tgt"} for n in ("first", "second")]
    config = toy_config(
        tmp_path,
        data={"train": corpora},
        tokenizer={"kind": "char", "size": 30, "joint": joint},
    )
    monkeypatch.setattr(vocabulary, "_SENTENCES_ENOUGH", 202)  # sentencepiece needs 101
    tokenizers = prepare_tokenizers(config, tmp_path / "run")
    for tokenizer in (tokenizers.source, tokenizers.target):
        assert tokenizer.special_ids.unk not in tokenizer.encode(["abcxyz"])[0]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 19, 20, 21, 95, 1000])
def test_evenly_spaced_pairs_are_as_many_as_asked_for_and_nowhere_far_apart(count):
    pairs = [Pair("a", "b", line, "f") for line in range(count)]
    chosen = [pair.line for pair in module._evenly_spaced(pairs, count, 10)]
    assert len(chosen) == min(count, 10)
    gaps = {later - earlier for earlier, later in itertools.pairwise(chosen)}
    assert max(gaps, default=1) - min(gaps, default=1) <= 1
    assert chosen == sorted(set(chosen))
