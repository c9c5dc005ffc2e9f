"""Every format gives the same segments, and what stands before a damage is read."""

import gzip
import os
import subprocess
import sys

import pytest

from translation_files import FORMATS, PAIRS, XML, read, texts
from untold.checking.formats import read_segments, read_two_files
from untold.checking.segments import ReadOptions, Segment
from untold.errors import UntoldError

ALL = pytest.mark.parametrize("name", FORMATS)
ALL_XML = pytest.mark.parametrize("name", XML)
NEW = ("Three birds sing a song.", "Drei Vögel singen ein Lied.")


def place(tmp_path, name, gz=""):
    return tmp_path / f"file{FORMATS[name].suffix}{gz}"


# --- good files


@ALL
def test_every_format_gives_the_same_pairs_with_their_lines(tmp_path, name):
    path = place(tmp_path, name)
    segments, damages = read(path, FORMATS[name].write(PAIRS))
    assert texts(segments) == PAIRS
    assert damages == []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, segment in enumerate(segments):
        assert segment.file == str(path)
        assert segment.line == FORMATS[name].line(number)
        assert segment.target.split()[0] in lines[segment.line - 1]
        assert (segment.unchecked, segment.ignored) == ("", frozenset())


@ALL
def test_line_ends_byte_order_marks_and_gz_change_nothing(tmp_path, name):
    data, path = FORMATS[name].write(PAIRS).encode(), place(tmp_path, name)
    files = {
        path.with_stem("crlf"): data.replace(b"\n", b"\r\n"),
        path.with_stem("bom"): b"\xef\xbb\xbf" + data,
        place(tmp_path, name, ".gz"): gzip.compress(data),
        path.with_suffix(path.suffix.upper()): data,
    }
    for changed, content in files.items():
        segments, damages = read(changed, content)
        assert (texts(segments), damages) == (PAIRS, []), changed
        assert [segment.line for segment in segments] == [FORMATS[name].line(n) for n in range(4)]


@ALL
def test_an_empty_file_has_no_segments(tmp_path, name):
    segments, damages = read(place(tmp_path, name), b"")
    assert segments == []
    assert len(damages) == (name in XML)  # an empty file is no XML document


@ALL
def test_sides_that_cannot_be_judged_are_counted_and_not_dropped(tmp_path, name):
    cases = [
        (("The cat sleeps.", ""), "untranslated"),
        (("The cat sleeps.", "   "), "untranslated"),
        (("The cat sleeps.", "The cat sleeps."), "untranslated"),
        (("Linux", "Linux"), "identical"),
        (("12 / 24", "12 / 24"), "identical"),
        (("%s", "%s"), "empty"),
        (("The file %s", "%s"), "empty"),
        (("{n, plural, one {a cat} other {# cats}}", "{n, plural, other {# Katzen}}"), "branches"),
        (("The cat sleeps.", "Die Katze schläft."), ""),
    ]
    segments, damages = read(place(tmp_path, name), FORMATS[name].write([c for c, _ in cases]))
    assert damages == []
    assert [segment.unchecked for segment in segments] == [reason for _, reason in cases]


def test_an_empty_source_is_not_judged(tmp_path):
    for name in ("tsv", "jsonl", *XML):  # an empty msgid is the header of a PO file
        segments, _ = read(place(tmp_path, name), FORMATS[name].write([("", "etwas"), NEW]))
        assert [segment.unchecked for segment in segments] == ["empty", ""]


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "po"])
def test_segments_come_out_before_the_rest_is_read(tmp_path, name):
    path = place(tmp_path, name)
    path.write_text(FORMATS[name].write([NEW] * 2000), encoding="utf-8")
    first = next(read_segments(path, ReadOptions()))
    assert isinstance(first, Segment)


_MEASURE = """
import re, sys
from pathlib import Path
from untold.checking.formats import ReadOptions, read_segments

kept, peaks = [], []
for path in sys.argv[2:]:
    for segment in read_segments(Path(path), ReadOptions()):
        kept += [segment] if sys.argv[1] == "keep" else []
    status = Path("/proc/self/status").read_text()  # not getrusage, which counts the parent, too
    peaks.append(int(re.search(r"VmHWM:\\s*([0-9]+) kB", status)[1]))
print((peaks[1] - peaks[0]) / 1024)
"""


def grown(name, tmp_path, what):
    """The megabytes that a process grows by while it reads a file of 6 MB after a small one."""
    pair = "Three birds sing. " * 100, "Drei Vögel singen. " * 100
    paths = [tmp_path / f"{count}{FORMATS[name].suffix}" for count in (50, 1600)]
    for path in paths:
        path.write_text(FORMATS[name].write([pair] * int(path.stem)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _MEASURE, what, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(run.stdout)


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")


@needs_proc
@pytest.mark.parametrize("name", ["tsv", "tmx"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    assert grown(name, tmp_path, "drop") < 2


@needs_proc
def test_memory_that_grows_is_noticed(tmp_path):
    assert grown("tmx", tmp_path, "keep") > 4


# --- damage


@ALL
def test_a_file_cut_anywhere_gives_what_is_whole_before_the_cut(tmp_path, name):
    data, path = FORMATS[name].write(PAIRS).encode(), place(tmp_path, name)
    for cut in range(0, len(data) - 1, 7):
        segments, damages = read(path, data[:cut])
        found = texts(segments)
        if name == "po":  # which is read whole or not at all, and may end behind any entry
            assert damages == [] or found == []
        elif name != "tsv":  # only there a part of a text looks like a text
            assert found == PAIRS[: len(found)], cut
            assert len(damages) == 1 or (name == "jsonl" and data[cut - 1 : cut] in b"\n}"), cut


@ALL
def test_a_cut_gz_gives_what_it_holds(tmp_path, name):
    pairs = [(f"{source} {n}", f"{target} {n}") for n in range(60) for source, target in PAIRS]
    data = gzip.compress(FORMATS[name].write(pairs).encode())
    for cut in (len(data) // 2, len(data) - 4):
        segments, damages = read(place(tmp_path, name, ".gz"), data[:cut])
        found = texts(segments)
        assert found == pairs[: len(found)] or name == "tsv"
        assert "not a whole .gz file" in damages[-1].reason


@ALL
def test_a_missing_file_and_a_directory_are_named(tmp_path, name):
    for path in (tmp_path / f"absent{FORMATS[name].suffix}", tmp_path / f"d{FORMATS[name].suffix}"):
        if path.stem == "d":
            path.mkdir()
        with pytest.raises(UntoldError, match=path.name):
            list(read_segments(path, ReadOptions()))


def test_an_unknown_suffix_names_those_there_are(tmp_path):
    known = r"\.tsv, \.jsonl, \.po, \.pot, \.tmx, \.xlf or \.xliff"
    for name in ("file.txt", "file", "file.gz", "file.csv.gz", ".po", "po"):
        with pytest.raises(UntoldError, match=known):
            read_segments(tmp_path / name, ReadOptions())


@pytest.mark.parametrize(("name", "package"), [("po", "polib"), *((name, "lxml") for name in XML)])
def test_a_missing_package_is_named_with_the_extra(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UntoldError, match=rf"needs {package}: pip install 'untold\[files\]'"):
        read(place(tmp_path, name), FORMATS[name].write(PAIRS))


# --- two files


def test_two_files_are_read_line_by_line(tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("".join(f"{one}\n" for one, _ in PAIRS), encoding="utf-8")
    target.write_text("".join(f"{other}\r\n" for _, other in PAIRS), encoding="utf-8")
    segments = [each for each in read_two_files(source, target) if isinstance(each, Segment)]
    assert texts(segments) == PAIRS
    assert [(each.file, each.line) for each in segments] == [(str(target), n) for n in (1, 2, 3, 4)]


def test_two_files_of_unequal_length_are_refused(tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(b"one\ntwo\n")
    target.write_bytes(b"eins\n")
    with pytest.raises(UntoldError, match=r"has 2 lines and .* has 1"):
        list(read_two_files(source, target))


def test_a_bad_line_of_two_files_costs_its_pair(tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_bytes(b"one cat\n\xfftwo\nthree cats\nfour cats\n")
    target.write_bytes(b"eine Katze\nzwei\ndrei \xe4\nvier Katzen\n")
    found = list(read_two_files(source, target))
    assert [(type(each).__name__, each.file, each.line) for each in found] == [
        ("Segment", str(target), 1),
        ("Damage", str(source), 2),
        ("Damage", str(target), 3),
        ("Segment", str(target), 4),
    ]
