"""A store gives back what the encoder made, and is made again when its input changes."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from untold.config import CorpusConfig
from untold.corpus import store as store_module
from untold.corpus.corpora import CorpusText, Pair
from untold.corpus.filters import FilterReport, Limits
from untold.corpus.store import PairEncoder, build_store, open_store
from untold.errors import UntoldError


@dataclass(frozen=True)
class Encoder:
    """Encodes each side with a function instead of a tokenizer."""

    source: Callable
    target: Callable
    size: int
    fingerprint: str
    lowercase: bool = False

    def encode_pairs(self, pairs):
        sides = zip(*pairs, strict=True)
        sources, targets = ([t.lower() if self.lowercase else t for t in side] for side in sides)
        return list(zip(self.source(sources), self.target(targets), strict=True))


assert isinstance(Encoder(str, str, 1, ""), PairEncoder)


def characters(texts):
    return [[ord(character) for character in text] for text in texts]


def encoder(size=128, fingerprint="characters", lowercase=False):
    return Encoder(characters, characters, size, fingerprint, lowercase)


def prepare(directory, corpora, root, encoder, limits):
    with CorpusText(corpora, root, root / "copy") as text:
        return store_module.prepare(directory, text, encoder, limits)


def pairs(*texts, file="f"):
    return [Pair(source, target, line, file) for line, (source, target) in enumerate(texts, 1)]


def texts(store):
    return [tuple("".join(map(chr, side[i])) for side in store.sides) for i in range(len(store))]


LIMITS = Limits(max_tokens=10, max_ratio=3.0)


def test_pairs_come_back_with_their_lines_and_drops_are_counted(tmp_path):
    given = pairs(
        ("one", "eins"), ("", "x"), ("y", " \t"), ("a" * 11, "b"), ("ab", "abcdefg"), ("z", "zz")
    )
    build_store(tmp_path / "s", given, encoder(), LIMITS, {"corpus": "c"})
    store = open_store(tmp_path / "s")
    assert texts(store) == [("one", "eins"), ("z", "zz")]
    assert store.report == FilterReport(2, {"empty": 2, "too long": 1, "unequal": 1})
    assert [store.line(index) for index in range(2)] == [1, 6]
    assert store.where(1) == "f:6"
    assert [side.lengths.tolist() for side in store.sides] == [[3, 1], [4, 2]]


def test_words_are_limited_besides_pieces_and_counted_with_the_long_ones(tmp_path):
    given = pairs(("a b c", "a"), ("a b c d", "a"), ("a", "a b c d"), ("abcdefgh", "abcdefgh"))
    limits = Limits(max_tokens=10, max_words=3)
    store = build_store(tmp_path / "s", given, encoder(), limits, {})
    assert texts(store) == [("a b c", "a"), ("abcdefgh", "abcdefgh")]
    assert store.report == FilterReport(2, {"too long": 2})


def test_the_description_of_a_store_without_a_limit_of_words_is_that_of_older_versions(
    tmp_path, corpus
):
    for words, keys in ((None, set()), (7, {"max_words"})):
        limits = Limits(max_tokens=10, max_words=words)
        prepare(tmp_path / "s", (corpus,), tmp_path, encoder(), limits)
        described = json.loads((tmp_path / "s" / "store.json").read_bytes())["fingerprint"]
        assert set(described["limits"]) == {"max_tokens", "max_ratio"} | keys


def test_the_stored_ids_cannot_be_changed(tmp_path):
    store = build_store(tmp_path / "s", pairs(("a", "b")), encoder(), LIMITS, {})
    with pytest.raises(ValueError, match="read-only"):
        store.sides[0][0][0] = 7


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "<u2"), (65_537, "<u4"), (1 << 20, "<u4")])
def test_ids_are_as_narrow_as_the_vocabulary_allows(tmp_path, size, dtype):
    top = size - 1
    wide = Encoder(lambda texts: [[top] for _ in texts], characters, size, "top")
    store = build_store(tmp_path / "s", pairs(("a", "b")), wide, LIMITS, {})
    assert store.sides[0][0].dtype == np.dtype(dtype)
    assert store.sides[0][0].tolist() == [top]


@pytest.mark.parametrize("identifier", [-1, 128])
def test_an_id_outside_the_vocabulary_is_refused(tmp_path, identifier):
    wrong = Encoder(characters, lambda texts: [[identifier] for _ in texts], 128, "wrong")
    with pytest.raises(UntoldError, match=rf"target tokenizer gave ids {identifier} .* of 128"):
        build_store(tmp_path / "s", pairs(("a", "b")), wrong, LIMITS, {})
    assert list(tmp_path.iterdir()) == []


def test_chunks_make_no_difference(tmp_path, monkeypatch):
    given = [
        Pair("a" * (number % 12), "b" * (number * 7 % 11), number + 1, f"file {number // 40}")
        for number in range(100)
    ]
    whole = build_store(tmp_path / "whole", given, encoder(), LIMITS, {})
    for size in (1, 7, 100):
        monkeypatch.setattr(store_module, "_CHUNK_PAIRS", size)
        parts = build_store(tmp_path / "parts", given, encoder(), LIMITS, {})
        assert texts(parts) == texts(whole)
        assert parts.report == whole.report
        for name in ("source.ids", "target.offsets", "lines", "store.json"):
            one, other = (directory / name for directory in (parts.directory, whole.directory))
            assert one.read_bytes() == other.read_bytes()
    assert whole.where(0) == "file 0:3"
    assert whole.where(len(whole) - 1).startswith("file 2:")


def test_nothing_left_is_an_error_that_says_why(tmp_path):
    with pytest.raises(UntoldError, match=r"nothing to learn from: 0 of 2 pairs kept \(2 empty"):
        build_store(tmp_path / "s", pairs(("", "x"), ("x", "")), encoder(), LIMITS, {})
    with pytest.raises(UntoldError, match=r"nothing to learn from: 0 of 0"):
        build_store(tmp_path / "s", [], encoder(), LIMITS, {})


def test_a_failed_build_leaves_the_store_that_was_there(tmp_path):
    build_store(tmp_path / "s", pairs(("a", "b")), encoder(), LIMITS, {})

    def failing():
        yield Pair("c", "d", 1, "f")
        raise UntoldError("f:2: broken")

    with pytest.raises(UntoldError, match="f:2: broken"):
        build_store(tmp_path / "s", failing(), encoder(), LIMITS, {})
    assert texts(open_store(tmp_path / "s")) == [("a", "b")]


def test_a_damaged_store_is_refused(tmp_path):
    build_store(tmp_path / "s", pairs(("abc", "b")), encoder(), LIMITS, {})
    path = tmp_path / "s" / "source.ids"
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    with pytest.raises(UntoldError, match=r"s: source\.ids has changed"):
        open_store(tmp_path / "s")
    with pytest.raises(UntoldError, match="no such directory"):
        open_store(tmp_path / "nowhere")


class Counted:
    """Counts how often it is called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, texts):
        self.calls += 1
        return characters(texts)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "en").write_bytes(b"One\nTwo\n")
    (tmp_path / "de").write_bytes(b"Eins\nZwei\n")
    return CorpusConfig(source="en", target="de")


def test_prepare_reuses_what_fits_and_makes_the_rest_again(tmp_path, corpus):
    counted = Counted()

    def run(fingerprint="1", lowercase=False, limits=LIMITS, corpora=(corpus,)):
        before = counted.calls
        encode = Encoder(counted, characters, 128, fingerprint, lowercase)
        store = prepare(
            tmp_path / "stores" / "train",
            corpora,
            tmp_path,
            encode,
            limits,
        )
        return store, counted.calls - before

    store, calls = run()
    assert (texts(store), calls) == ([("One", "Eins"), ("Two", "Zwei")], 1)
    again, calls = run()
    assert (again.fingerprint, calls) == (store.fingerprint, 0)
    seen = {store.fingerprint}
    for change in (
        {"fingerprint": "2"},
        {"lowercase": True},
        {"limits": Limits(max_tokens=9)},
        {"limits": Limits(max_tokens=9, max_words=5)},
        {"corpora": (corpus, corpus)},
    ):
        changed, calls = run(**change)
        assert calls == 1, change
        seen.add(changed.fingerprint)
    assert len(seen) == 6
    (tmp_path / "en").write_bytes(b"One\nTwo!\n")
    changed, calls = run()
    assert (texts(changed)[1], calls) == (("Two!", "Zwei"), 1)
    assert [path.name for path in (tmp_path / "stores").iterdir()] == ["train"]


def test_prepare_lowercases_and_keeps_corpora_apart(tmp_path, corpus):
    encode = encoder(lowercase=True)
    (tmp_path / "t.tsv").write_bytes(b"X\tY\n")
    table = CorpusConfig(path="t.tsv")
    store = prepare(tmp_path / "s", (corpus, table), tmp_path, encode, LIMITS)
    assert texts(store) == [("one", "eins"), ("two", "zwei"), ("x", "y")]
    assert store.where(1) == f"{tmp_path / 'en'}:2"
    assert store.where(2) == f"{tmp_path / 't.tsv'}:1"


@pytest.mark.parametrize("damage", ["ids", "format", "manifest"])
def test_prepare_replaces_a_damaged_store(tmp_path, corpus, damage):
    store = prepare(tmp_path / "s", (corpus,), tmp_path, encoder(), LIMITS)
    if damage == "ids":
        (tmp_path / "s" / "source.ids").write_bytes(b"")
    elif damage == "manifest":
        (tmp_path / "s" / "MANIFEST.json").unlink()
    else:
        path = tmp_path / "s" / "store.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 0}))
    again = prepare(tmp_path / "s", (corpus,), tmp_path, encoder(), LIMITS)
    assert texts(again) == [("One", "Eins"), ("Two", "Zwei")]
    assert again.fingerprint == store.fingerprint


def test_a_corpus_that_changes_while_it_is_read_is_noticed(tmp_path, corpus):
    def meddling(texts):
        (tmp_path / "en").write_bytes(b"One\nSix\n")
        return characters(texts)

    encode = Encoder(meddling, characters, 128, "meddling")
    with pytest.raises(UntoldError, match="changed while it was read"):
        prepare(tmp_path / "s", (corpus,), tmp_path, encode, LIMITS)
