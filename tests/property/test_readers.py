"""Whatever the text, pairs stay aligned; readers that split on more than newlines do not."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from untold.config import CorpusConfig
from untold.corpus.corpora import read_pairs
from untold.corpus.text import read_lines
from untold.errors import UntoldError

SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
# A line is anything but a newline; a final CR is what the rule takes away, and so not text.
line = st.text(
    st.one_of(st.sampled_from(SEPARATORS), st.characters(exclude_categories=["Cs"])), max_size=12
).map(lambda text: text.replace("\n", " ").rstrip("\r"))
pairs = st.lists(st.tuples(line, line), max_size=8)
HOSTILE = [(f"a{character}b", "c") for character in SEPARATORS]


def read(write, corpus):
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory))
        return [(pair.source, pair.target) for pair in read_pairs(corpus, Path(directory))]


def joined(lines, end="\n"):
    return "".join(line + end for line in lines).encode()


@example(given_pairs=HOSTILE, end="\n", packed=False)
@given(given_pairs=pairs, end=st.sampled_from(["\n", "\r\n"]), packed=st.booleans())
def test_parallel_files_round_trip(given_pairs, end, packed):
    def write(root):
        for side, name in enumerate(names):
            data = joined((pair[side] for pair in given_pairs), end)
            (root / name).write_bytes(gzip.compress(data, 1) if packed else data)

    packed = packed and given_pairs != []
    names = ("en.gz", "de.gz") if packed else ("en", "de")
    assert read(write, CorpusConfig(source=names[0], target=names[1])) == given_pairs


def test_the_control_misaligns():
    """Python's own splitting finds more lines in one side than in the other."""
    text = joined(source for source, _ in HOSTILE).decode()
    assert len(text.split("\n")) - 1 == len(HOSTILE)
    assert len(str.splitlines(text)) == 2 * len(HOSTILE)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text"
        path.write_bytes(text.encode())
        with open(path, encoding="utf-8") as file:  # text mode splits on CR
            assert len(list(file)) == len(HOSTILE) + 1
        assert len(list(read_lines(path))) == len(HOSTILE)


@example(given_pairs=HOSTILE)
@given(given_pairs=pairs)
def test_tables_round_trip(given_pairs):
    def write(root):
        rows = [{"s": source, "t": target} for source, target in given_pairs]
        (root / "t.jsonl").write_bytes(joined(json.dumps(row) for row in rows))
        (root / "u.jsonl").write_bytes(joined(json.dumps(r, ensure_ascii=False) for r in rows))
        (root / "t.tsv").write_bytes(joined(f"{source}\t{target}" for source, target in flat))

    flat = [(s.replace("\t", " "), t.replace("\t", " ")) for s, t in given_pairs]
    columns = ("s", "t")
    assert read(write, CorpusConfig(path="t.jsonl", columns=columns)) == given_pairs
    assert read(write, CorpusConfig(path="u.jsonl", columns=columns)) == given_pairs
    assert read(write, CorpusConfig(path="t.tsv")) == flat


@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_placed(data):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text"
        path.write_bytes(data)
        expected = data.split(b"\n")[: -1 if data.endswith(b"\n") or not data else None]
        try:
            lines = list(read_lines(path))
        except UntoldError as error:
            number = int(str(error).removeprefix(f"{path}:").split(":")[0])
            with pytest.raises(UnicodeDecodeError):
                expected[number - 1].decode()
        else:
            assert lines == [line.removesuffix(b"\r").decode() for line in expected]


@given(lines=st.lists(line, min_size=1, max_size=30), where=st.floats(0.0, 1.0, exclude_max=True))
def test_no_cut_of_a_gz_goes_unseen(lines, where):
    whole = gzip.compress(joined(lines))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "text.gz"
        path.write_bytes(whole[: int(where * len(whole))])
        with pytest.raises(UntoldError):
            next(read_lines(path))
