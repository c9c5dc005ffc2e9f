"""Corpora in many files, read window by window."""

import itertools
import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from toys import toy_config, toy_tokenizers, write_corpus
from untold.config import CorpusConfig
from untold.corpus.batching import TextCodec
from untold.corpus.corpora import CorpusText
from untold.corpus.filters import Limits
from untold.corpus.stream import pair_stream
from untold.corpus.stream.pair_stream import PairStream
from untold.corpus.stream.shard_files import expand_corpus
from untold.errors import UntoldError

PAIRS = 60
FILES = CorpusConfig(source="part-*.src", target="part-*.tgt")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A corpus in one file, in five parts, and as a dataset of two files."""
    root = write_corpus(tmp_path_factory.mktemp("corpus"), PAIRS)
    sides = {side: (root / f"train.{side}").read_text().split("\n")[:-1] for side in ("src", "tgt")}
    for side, lines in sides.items():
        for number in range(5):
            part = lines[number * 12 : (number + 1) * 12]
            (root / f"part-{number}.{side}").write_text("".join(f"{line}\n" for line in part))
    (root / "dataset").mkdir()
    rows = [json.dumps({"source": s, "target": t}) for s, t in zip(*sides.values(), strict=True)]
    for number in range(2):
        text = "\n".join(rows[number * 30 : (number + 1) * 30])
        (root / "dataset" / f"train-{number}.jsonl").write_text(text + "\n")
    return root


@pytest.fixture(scope="module")
def codec(root):
    return TextCodec(toy_tokenizers(root, toy_config(root)))


@pytest.fixture
def stream(root, codec):
    def stream(window, corpus=FILES, max_tokens=100):
        return PairStream([corpus], root, codec, Limits(max_tokens), window)

    return stream


def epoch(stream, number, seed=1):
    """All windows of an epoch, as lists of pairs of ids."""
    windows, is_last = [], False
    while not is_last:
        window = stream.window(seed, number, len(windows))
        windows.append([(tuple(s.tolist()), tuple(t.tolist())) for s, t in window.pairs])
        is_last = window.is_last
    return windows


def all_pairs(root, codec):
    with CorpusText([CorpusConfig(source="train.src", target="train.tgt")], root, root) as text:
        pairs = codec.encode_pairs([(pair.source, pair.target) for pair in text.pairs()])
    return Counter((tuple(s), tuple(t)) for s, t in pairs)


@pytest.mark.parametrize(
    ("corpus", "window"),
    [
        *((FILES, window) for window in (1, 7, 30, 59, 60, 61, 1000)),
        *((CorpusConfig(dataset="dataset"), window) for window in (7, 60)),
    ],
)
def test_an_epoch_has_every_pair_once_in_windows_of_any_size(stream, root, codec, corpus, window):
    windows = epoch(stream(window, corpus), 0)
    assert Counter(itertools.chain.from_iterable(windows)) == all_pairs(root, codec)
    assert all(len(each) == window for each in windows[:-1])
    assert len(windows[-1]) < window


def test_files_are_shuffled_by_seed_and_epoch(stream):
    first, again, other, seeded = (
        epoch(stream(1000), *place) for place in ((0, 1), (0, 1), (1, 1), (0, 2))
    )
    assert first == again
    assert first != other and first != seeded


def test_a_window_is_found_again_by_its_number_and_nothing_before_it_is_encoded(stream, codec):
    whole = epoch(stream(7), 3)
    encoded, plain = [], codec.encode_pairs

    class Counting(TextCodec):
        def encode_pairs(self, pairs):
            encoded.append(len(pairs))
            return plain(pairs)

    later = stream(7)
    later._encoder = Counting(codec.tokenizers)
    found = later.window(1, 3, 5)
    assert [tuple(s.tolist()) for s, _ in found.pairs] == [source for source, _ in whole[5]]
    assert encoded == [7]


def test_only_a_window_is_read_at_a_time(stream, monkeypatch):
    read, plain = [], pair_stream.read_shard

    def note(shard, root):
        read.append(shard.source)
        yield from plain(shard, root)

    monkeypatch.setattr(pair_stream, "read_shard", note)
    stream(12).window(1, 0, 0)
    assert len(read) == 1


def test_dropped_pairs_make_windows_smaller_and_places_name_their_lines(stream, root):
    window = stream(1000, max_tokens=4).window(1, 0, 0)
    assert 0 < len(window.pairs) < PAIRS
    for index in range(len(window.pairs)):
        name, line = window.where(index).rsplit(":", 1)
        assert 1 <= int(line) <= 12 and name.startswith(str(root / "part-"))
    assert max(map(len, (s for s, _ in window.pairs))) <= 4


def test_a_stream_without_anything_to_learn_is_refused(codec, tmp_path):
    for side in ("src", "tgt"):
        (tmp_path / f"part-0.{side}").write_text("\n\n")
    stream = PairStream([FILES], tmp_path, codec, Limits(100), 9)
    with pytest.raises(UntoldError, match="nothing to learn from"):
        stream.window(1, 0, 0)


def test_the_fingerprint_changes_with_files_and_windows(stream, root, tmp_path):
    before = stream(7).fingerprint
    assert stream(7).fingerprint == before
    assert stream(8).fingerprint != before
    path = root / "part-3.src"
    text = path.read_text()
    try:
        path.write_text(text.replace("a", "b"))
        assert stream(7).fingerprint != before
    finally:
        path.write_text(text)


def test_patterns_stand_for_files_in_order_and_must_be_parallel(root, tmp_path):
    found = expand_corpus(FILES, root)
    assert [(each.source, each.target) for each in found] == [
        (f"part-{k}.src", f"part-{k}.tgt") for k in range(5)
    ]
    plain = CorpusConfig(source="train.src", target="train.tgt")
    assert expand_corpus(plain, root) == [plain]
    (tmp_path / "a.src").write_text("x\n")
    lonely = CorpusConfig(source="*.src", target="*.tgt")
    with pytest.raises(UntoldError, match=r"matches 1 files and \*\.tgt matches 0"):
        expand_corpus(lonely, tmp_path)
    with CorpusText([FILES], root, tmp_path) as parts, CorpusText([plain], root, tmp_path) as one:
        texts = [[(pair.source, pair.target) for pair in text.pairs()] for text in (parts, one)]
    assert texts[0] == texts[1]


class Counted(TextCodec):
    """Counts what it encodes."""

    count = 0

    def encode_pairs(self, pairs):
        object.__setattr__(self, "count", self.count + len(pairs))
        return super().encode_pairs(pairs)


class Member:
    """One of several processes, which are threads here."""

    def __init__(self, rank, desk, barrier):
        self.rank, self.world_size = rank, barrier.parties
        self.desk, self.barrier = desk, barrier

    def all_gather(self, value):
        self.desk[self.rank] = value
        self.barrier.wait()
        found = [self.desk[rank] for rank in range(self.world_size)]
        self.barrier.wait()  # nobody writes while others read
        return found


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize(("window", "max_tokens"), [(7, 100), (60, 100), (60, 5)])
def test_processes_share_the_encoding_and_have_the_same_windows(
    root, codec, processes, window, max_tokens
):
    """Also where pairs are dropped, and where a window has fewer pairs than there are processes."""
    limits, barrier = Limits(max_tokens), threading.Barrier(processes, timeout=60)
    alone, desk = PairStream([FILES], root, codec, limits, window), {}
    expected = [alone.window(1, 0, number) for number in range(-(-PAIRS // window))]
    codecs = [Counted(codec.tokenizers) for _ in range(processes)]

    def read(rank):
        stream = PairStream([FILES], root, codecs[rank], limits, window)
        member = Member(rank, desk, barrier)
        return [stream.window(1, 0, number, member) for number in range(len(expected))]

    with ThreadPoolExecutor(processes) as pool:
        for windows in pool.map(read, range(processes)):
            for found, wanted in zip(windows, expected, strict=True):
                assert (found.places, found.is_last) == (wanted.places, wanted.is_last)
                ids = (
                    [s.tolist() for pair in each.pairs for s in pair] for each in (found, wanted)
                )
                assert next(ids) == next(ids)
    assert sum(each.count for each in codecs) == PAIRS
    if window == PAIRS:
        assert max(each.count for each in codecs) == -(-PAIRS // processes)
