"""Every format gives the same pairs, and a damaged corpus is refused before it is used."""

import gzip
import json
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from untold.config import CorpusConfig
from untold.corpus.corpora import fingerprint_corpus, read_pairs
from untold.corpus.text import count_lines, read_lines, split_lines
from untold.errors import UntoldError

SHARED = Path(__file__).parents[4] / "shared" / "data"
PAIRS = [("a cat", "eine Katze"), ("", "nur hier"), ("two\u2028dogs", "zwei\x85Hunde")]
COLUMNS = ("en", "de")


def texts(corpus, root):
    pairs = list(read_pairs(corpus, root))
    assert [pair.line for pair in pairs] == list(range(pairs[0].line, pairs[0].line + len(pairs)))
    return [(pair.source, pair.target) for pair in pairs]


def put(path, data):
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def joined(lines):
    return "".join(line + "\n" for line in lines).encode()


def rows(pairs=PAIRS):
    return [{"en": source, "n": 1, "de": target} for source, target in pairs]


def nested(pairs=PAIRS):
    return [{"id": 7, "translation": row} for row in rows(pairs)]


def jsonl(table):
    return joined(json.dumps(row) for row in table)


# --- lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n", [""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\rc", ["a\r", "b\rc"]),
        (b"a\rb\x0b\x0c\x1c\x1d\x1e\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\n", [None]),
        (b"\xef\xbb\xbfa\n", ["\ufeffa"]),
        (b"\0\n", ["\0"]),
    ],
)
def test_only_a_newline_ends_a_line(tmp_path, data, lines):
    path = tmp_path / "text"
    path.write_bytes(data)
    lines = [data.decode().rstrip("\n")] if lines == [None] else lines
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)
    with open(path, "rb") as stream:
        assert list(split_lines(stream, "<stdin>")) == lines


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"fine\nb\xffd\n", r"text:2:2: byte 0xff is not UTF-8"),
        (b"\xe2\x82\n", r"text:1:1: byte 0xe2"),
        (b"ok\n\xed\xa0\x80\n", r"text:2:1: byte 0xed"),  # a surrogate in disguise
        (b"\xff\xfea\0\n\0", r"text:1:1"),  # UTF-16
    ],
)
def test_bytes_that_are_not_utf8_are_placed(tmp_path, data, place):
    path = tmp_path / "text"
    path.write_bytes(data)
    with pytest.raises(UntoldError, match=place):
        list(read_lines(path))


def test_missing_files_and_directories_are_named(tmp_path):
    with pytest.raises(UntoldError, match=r"nowhere: No such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(UntoldError, match=r"Is a directory"):
        list(read_lines(tmp_path))
    for corpus in (CorpusConfig(source="x", target="y"), CorpusConfig(path="x.tsv")):
        with pytest.raises(UntoldError, match=r"no such file"):
            list(read_pairs(corpus, tmp_path))
        with pytest.raises(UntoldError, match=r"no such file"):
            fingerprint_corpus(corpus, tmp_path)
    (tmp_path / "x").mkdir()
    with pytest.raises(UntoldError, match=r"x: not a regular file"):
        list(read_pairs(CorpusConfig(source="x", target="y"), tmp_path))


# --- compressed files


CONTENT = joined(f"line {number} {number * number % 97}" for number in range(200))
WHOLE = gzip.compress(CONTENT)


@pytest.mark.parametrize(
    "cut", [1, 2, 9, 10, 11, len(WHOLE) // 2, len(WHOLE) - 9, len(WHOLE) - 8, len(WHOLE) - 1]
)
def test_a_cut_gz_gives_no_line_at_all(tmp_path, cut):
    path = tmp_path / "text.gz"
    path.write_bytes(WHOLE[:cut])
    with pytest.raises(UntoldError, match=r"text\.gz: not a whole \.gz file"):
        next(read_lines(path))
    (tmp_path / "other").write_bytes(CONTENT)
    for corpus in (
        CorpusConfig(source="text.gz", target="other"),
        CorpusConfig(source="other", target="text.gz"),
    ):
        with pytest.raises(UntoldError, match=r"not a whole"):
            next(read_pairs(corpus, tmp_path))


def test_the_plain_gzip_module_does_give_lines_of_a_cut_file(tmp_path):
    """This control shows the hazard that the first pass of the reader prevents."""
    path = tmp_path / "text.gz"
    path.write_bytes(WHOLE[:-1])
    lines = []
    with gzip.open(path) as file, pytest.raises(EOFError):
        for line in file:
            lines.append(line)
    assert len(lines) == 200


@pytest.mark.parametrize("data", [b"", gzip.compress(b"")], ids=["no bytes", "no content"])
def test_an_empty_gz_is_an_error(tmp_path, data):
    path = tmp_path / "text.gz"
    path.write_bytes(data)
    with pytest.raises(UntoldError, match=r"holds nothing"):
        next(read_lines(path))


def test_a_damaged_gz_and_a_false_one_are_errors(tmp_path):
    damaged = bytearray(WHOLE)
    damaged[-6] ^= 1  # its checksum
    (tmp_path / "damaged.gz").write_bytes(damaged)
    (tmp_path / "false.gz").write_bytes(b"plain text\n")
    (tmp_path / "more.gz").write_bytes(WHOLE + b"litter")
    for name in ("damaged", "false", "more"):
        with pytest.raises(UntoldError, match=rf"{name}\.gz: not a whole \.gz file"):
            next(read_lines(tmp_path / f"{name}.gz"))


def test_a_gz_of_several_members_is_one_text(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert list(read_lines(path)) == ["a", "bc"]


# --- parallel files


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_parallel_files(tmp_path, suffix):
    put(tmp_path / f"en{suffix}", joined(source for source, _ in PAIRS))
    put(tmp_path / f"de{suffix}", joined(target for _, target in PAIRS))
    corpus = CorpusConfig(source=f"en{suffix}", target=f"de{suffix}")
    assert texts(corpus, tmp_path) == PAIRS
    last = list(read_pairs(corpus, tmp_path))[-1]
    assert (last.line, last.file) == (3, str(tmp_path / f"en{suffix}"))


def test_unequal_counts_are_told_before_any_pair(tmp_path):
    put(tmp_path / "en", b"a\nb\nc\n")
    put(tmp_path / "de", b"a\nb\n")
    with pytest.raises(UntoldError, match=r"en has 3 lines and .*de has 2"):
        next(read_pairs(CorpusConfig(source="en", target="de"), tmp_path))


def test_absolute_paths_need_no_root(tmp_path):
    put(tmp_path / "en", b"a\n")
    corpus = CorpusConfig(source=str(tmp_path / "en"), target=str(tmp_path / "en"))
    assert texts(corpus, Path("elsewhere")) == [("a", "a")]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared corpora are not beside the project")
def test_a_real_corpus_is_aligned():
    corpus = CorpusConfig(source="train.zh.gz", target="train.en.gz")
    assert len(texts(corpus, SHARED / "tatoeba-zh-en")) == 43_784


# --- TSV


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz"])
def test_tsv_by_position_number_and_name(tmp_path, name):
    put(tmp_path / name, joined("\t".join(pair) for pair in PAIRS))
    assert texts(CorpusConfig(path=name), tmp_path) == PAIRS
    put(tmp_path / name, joined(f"7\t{target}\t{source}" for source, target in PAIRS))
    assert texts(CorpusConfig(path=name, columns=("3", "2")), tmp_path) == PAIRS
    lines = ["id\tde\ten", *(f"7\t{target}\t{source}" for source, target in PAIRS)]
    put(tmp_path / name, joined(lines))
    corpus = CorpusConfig(path=name, columns=COLUMNS)
    assert texts(corpus, tmp_path) == PAIRS
    assert next(read_pairs(corpus, tmp_path)).line == 2


def test_tsv_quotes_are_text_and_crlf_is_not(tmp_path):
    put(tmp_path / "t.tsv", b'"a\t"b"\r\nc\td\r\n')
    assert texts(CorpusConfig(path="t.tsv"), tmp_path) == [('"a', '"b"'), ("c", "d")]


@pytest.mark.parametrize(
    ("data", "columns", "reason"),
    [
        (b"a\tb\nc\n", None, r"t\.tsv:2: 1 fields, not 2"),
        (b"a\n", None, r"t\.tsv:1: 1 fields, not 2"),
        (b"a\tb\na\tb\tc\n", None, r"t\.tsv:2: 3 fields, not 2"),
        (b"a\tb\n", ("1", "3"), r"t\.tsv:1: 2 fields, not 3"),
        (b"en\tfr\n", COLUMNS, r"t\.tsv: no column 'de'; set columns to two of: 'en', 'fr'"),
    ],
)
def test_tsv_faults_are_named(tmp_path, data, columns, reason):
    put(tmp_path / "t.tsv", data)
    with pytest.raises(UntoldError, match=reason):
        list(read_pairs(CorpusConfig(path="t.tsv", columns=columns), tmp_path))


def test_an_empty_tsv_has_no_pairs(tmp_path):
    put(tmp_path / "t.tsv", b"")
    assert list(read_pairs(CorpusConfig(path="t.tsv", columns=COLUMNS), tmp_path)) == []


# --- JSONL and Parquet


@pytest.mark.parametrize("table", [rows(), nested()], ids=["flat", "nested"])
@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.parquet"])
def test_flat_and_nested_columns(tmp_path, name, table):
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / name, row_group_size=2)
    else:
        put(tmp_path / name, jsonl(table))
    assert texts(CorpusConfig(path=name, columns=COLUMNS), tmp_path) == PAIRS


def test_without_columns_source_and_target_are_meant(tmp_path):
    put(tmp_path / "t.jsonl", jsonl([{"target": "b", "source": "a"}]))
    assert texts(CorpusConfig(path="t.jsonl"), tmp_path) == [("a", "b")]
    put(tmp_path / "t.jsonl", jsonl([{"en": "a", "de": "b"}]))
    reason = r"t\.jsonl:1: no column 'source', 'target'; set columns to two of: 'en', 'de'"
    with pytest.raises(UntoldError, match=reason):
        list(read_pairs(CorpusConfig(path="t.jsonl"), tmp_path))


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_line_breaks_become_spaces_and_null_is_empty(tmp_path, name):
    table = [{"en": "a\nb\r\nc\rd\u2028", "de": None}, {"en": "", "de": "x"}]
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / name)
    else:
        put(tmp_path / name, jsonl(table))
    pairs = texts(CorpusConfig(path=name, columns=COLUMNS), tmp_path)
    assert pairs == [("a b c\rd\u2028", ""), ("", "x")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"en": "\\ud800x", "de": "y"}\n', r"t\.jsonl:1: lone surrogate U\+D800 at character 1"),
        (b'{"en": "a", "de": 3}\n', r"t\.jsonl:1: 3 is int, not text"),
        (b'{"en": "a"}\n', r"t\.jsonl:1: no column 'de'; set columns to two of: 'en'"),
        (b'{"translation": {"en": "a", "fr": "b"}}\n', r"no column 'de'; .*: 'en', 'fr'"),
        (b'{"en": "a", "de": "b"}\n\n', r"t\.jsonl:2: not JSON"),
        (b"[1]\n", r"t\.jsonl:1: '\[1\]' is not a JSON object"),
        (b"[" * 100_000, r"t\.jsonl:1: not JSON"),
        (b'{"en": "a", "de": "b\xff"}\n', r"t\.jsonl:1:21: byte 0xff"),
    ],
)
def test_jsonl_faults_are_named(tmp_path, data, reason):
    put(tmp_path / "t.jsonl", data)
    with pytest.raises(UntoldError, match=reason):
        list(read_pairs(CorpusConfig(path="t.jsonl", columns=COLUMNS), tmp_path))


def test_a_paired_surrogate_in_json_is_one_character(tmp_path):
    put(tmp_path / "t.jsonl", b'{"en": "\\ud83d\\ude00", "de": "x"}\n')
    assert texts(CorpusConfig(path="t.jsonl", columns=COLUMNS), tmp_path) == [("\U0001f600", "x")]


def test_parquet_faults_are_named(tmp_path):
    corpus = CorpusConfig(path="t.parquet", columns=COLUMNS)
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows() * 50), path)
    whole = path.read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(UntoldError, match=r"t\.parquet: not a whole Parquet file"):
            next(read_pairs(corpus, tmp_path))
    bad = pyarrow.array([b"fine", b"b\xff"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"en": bad, "de": ["x", "y"]}), path)
    with pytest.raises(UntoldError, match=r"t\.parquet:2: not UTF-8"):
        list(read_pairs(corpus, tmp_path))
    parquet.write_table(pyarrow.table({"en": ["a"], "fr": ["b"]}), path)
    with pytest.raises(UntoldError, match=r"no column 'de'; set columns to two of: 'en', 'fr'"):
        list(read_pairs(corpus, tmp_path))


def test_an_unknown_table_names_the_known(tmp_path):
    put(tmp_path / "t.csv", b"a,b\n")
    with pytest.raises(UntoldError, match=r"t\.csv: a table is \.tsv"):
        list(read_pairs(CorpusConfig(path="t.csv"), tmp_path))


# --- Hugging Face datasets


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets")


@pytest.mark.parametrize("table", [rows(), nested()], ids=["flat", "nested"])
def test_a_saved_dataset(tmp_path, datasets, table):
    dataset = datasets.Dataset.from_list(table)
    dataset.save_to_disk(tmp_path / "saved")
    corpus = CorpusConfig(dataset="saved", columns=COLUMNS)
    assert texts(corpus, tmp_path) == PAIRS
    datasets.DatasetDict({"valid": dataset}).save_to_disk(tmp_path / "splits")
    corpus = CorpusConfig(dataset="splits", split="valid", columns=COLUMNS)
    assert texts(corpus, tmp_path) == PAIRS
    corpus = CorpusConfig(dataset="splits", columns=COLUMNS)
    with pytest.raises(UntoldError, match=r"splits: no split 'train'; there are: valid"):
        list(read_pairs(corpus, tmp_path))


def test_the_translation_feature(tmp_path, datasets):
    features = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
    table = [{"translation": {"en": source, "de": target}} for source, target in PAIRS]
    datasets.Dataset.from_list(table, features=features).save_to_disk(tmp_path / "saved")
    corpus = CorpusConfig(dataset="saved", columns=COLUMNS)
    assert texts(corpus, tmp_path) == PAIRS


@pytest.mark.parametrize("table", [rows(), nested()], ids=["flat", "nested"])
@pytest.mark.parametrize("name", ["train.jsonl", "train.parquet"])
def test_a_directory_of_data_files(tmp_path, datasets, name, table):
    (tmp_path / "files").mkdir()
    if name.endswith(".parquet"):
        parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "files" / name)
    else:
        put(tmp_path / "files" / name, jsonl(table))
    corpus = CorpusConfig(dataset="files", columns=COLUMNS)
    assert texts(corpus, tmp_path) == PAIRS
    for wrong in (
        CorpusConfig(dataset="files", split="test", columns=COLUMNS),
        CorpusConfig(dataset="files", columns=("en", "fr")),
    ):
        with pytest.raises(UntoldError, match=r"test|no column 'fr'"):
            list(read_pairs(wrong, tmp_path))


def test_a_dataset_by_name_and_configuration(tmp_path, datasets, monkeypatch):
    asked = []

    def load_dataset(name, configuration, *, split, streaming):
        asked.append((name, configuration, split, streaming))
        return datasets.Dataset.from_list(nested())

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    corpus = CorpusConfig(dataset="some/name:de-en", split="test", columns=COLUMNS)
    assert texts(corpus, tmp_path) == PAIRS
    assert len(fingerprint_corpus(corpus, tmp_path)) == 64
    assert asked == [("some/name", "de-en", "test", False)] * 2


def test_what_datasets_says_is_passed_on(tmp_path, datasets, monkeypatch):
    def load_dataset(*args, **kwargs):
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    reason = r"dataset some/name: is no directory \(.*\), and datasets says: no route to the hub"
    with pytest.raises(UntoldError, match=reason):
        list(read_pairs(CorpusConfig(dataset="some/name"), tmp_path))


@pytest.mark.parametrize(
    ("package", "corpus"),
    [
        ("pyarrow", CorpusConfig(path="t.parquet")),
        ("datasets", CorpusConfig(dataset="some/name")),
    ],
)
def test_a_missing_package_names_the_extra(tmp_path, monkeypatch, package, corpus):
    (tmp_path / "t.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UntoldError, match=rf"needs {package}: pip install 'untold\[hf\]'"):
        list(read_pairs(corpus, tmp_path))


# --- fingerprints


def test_the_fingerprint_follows_bytes_and_reading_but_not_place(tmp_path):
    put(tmp_path / "a.tsv", b"x\ty\n")
    (tmp_path / "moved").mkdir()
    put(tmp_path / "moved" / "b.tsv", b"x\ty\n")
    put(tmp_path / "c.tsv", b"x\tz\n")
    first = fingerprint_corpus(CorpusConfig(path="a.tsv"), tmp_path)
    assert fingerprint_corpus(CorpusConfig(path="b.tsv"), tmp_path / "moved") == first
    others = [
        CorpusConfig(path="c.tsv"),
        CorpusConfig(path="a.tsv", columns=("2", "1")),
        CorpusConfig(source="a.tsv", target="a.tsv"),
        CorpusConfig(source="a.tsv", target="c.tsv"),
        CorpusConfig(source="c.tsv", target="a.tsv"),
    ]
    prints = {fingerprint_corpus(corpus, tmp_path) for corpus in others}
    assert len(prints | {first}) == len(others) + 1


def test_the_fingerprint_of_a_directory_is_that_of_its_files(tmp_path):
    (tmp_path / "d").mkdir()
    put(tmp_path / "d" / "train.jsonl", jsonl(rows()))
    corpus = CorpusConfig(dataset="d", columns=COLUMNS)
    first = fingerprint_corpus(corpus, tmp_path)
    put(tmp_path / "d" / "train.jsonl", jsonl(rows()[:1]))
    assert fingerprint_corpus(corpus, tmp_path) != first


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom"])
def test_a_device_without_an_end_is_refused(device):
    with pytest.raises(UntoldError, match=f"{device}: a device that never ends: name a file"):
        list(read_lines(Path(device)))


def test_the_empty_device_is_an_empty_file():
    assert list(read_lines(Path("/dev/null"))) == []
