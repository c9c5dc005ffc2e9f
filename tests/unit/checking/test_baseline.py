"""The baseline knows translations, wherever they stand, and refuses what it cannot read."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.checking.segments import Segment
from untold.checking.verdict import baseline_entry, entries_of, read_baseline, write_baseline
from untold.errors import UntoldError

SEGMENT = Segment("po/de.po", 12, "a hat", "ein Hut", "menu.hat")


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "known.json"


def known(path, *entries):
    write_baseline(path, entries)
    return read_baseline(path)


def test_an_entry_survives_an_edit_above_it_and_no_other_change(path):
    baseline = known(path, baseline_entry(SEGMENT, "omission"))
    assert baseline_entry(SEGMENT, "omission") in baseline
    assert baseline_entry(replace(SEGMENT, line=99), "omission") in baseline
    assert baseline_entry(SEGMENT, "addition") not in baseline
    others = {"file": "po/fr.po", "source": "a cap", "target": "ein Hut.", "name": "menu.cap"}
    for name, value in others.items():
        assert baseline_entry(replace(SEGMENT, **{name: value}), "omission") not in baseline, name


def test_names_of_files_are_relative_to_the_baseline(path, tmp_path, monkeypatch):
    write_baseline(path, [baseline_entry(SEGMENT, "omission")])
    assert json.loads(path.read_text())["known"][0]["file"] == "po/de.po"
    (tmp_path / "po").mkdir()
    monkeypatch.chdir(tmp_path / "po")  # the same file under another name
    assert baseline_entry(replace(SEGMENT, file="de.po"), "omission") in read_baseline(path)
    assert baseline_entry(
        replace(SEGMENT, file=str(tmp_path / "po/de.po")), "omission"
    ) in read_baseline(path)
    deep = tmp_path / "po" / "known.json"
    write_baseline(deep, read_baseline(path))
    assert json.loads(deep.read_text())["known"][0]["file"] == "de.po"


def test_the_file_is_stable_and_has_a_line_for_each_entry(path):
    segments = [replace(SEGMENT, source=f"hat {number}") for number in range(9)]
    entries = [baseline_entry(each, kind) for each in segments for kind in ("omission", "addition")]
    write_baseline(path, entries)
    first = path.read_bytes()
    write_baseline(path, [*reversed(entries), entries[0]])
    assert path.read_bytes() == first
    write_baseline(path, entries[1:])
    lines = first.split(b"\n")
    gone = [line for line in lines if line.rstrip(b",") not in path.read_bytes()]
    assert len(gone) == 1 and b'"hat 0"' in gone[0] and b'"omission"' in gone[0]


def test_an_empty_baseline_knows_nothing(path):
    assert known(path) == frozenset()


def test_entries_of_some_files_are_told_from_the_others(path):
    entry = baseline_entry(SEGMENT, "omission")
    other = baseline_entry(replace(SEGMENT, file="po/fr.po"), "omission")
    assert entries_of([Path("po/de.po")], known(path, entry, other)) == {entry}
    assert entries_of([Path("po/it.po")], known(path, entry, other)) == set()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"layout": 1}',
        b'{"layout": 1, "known": 3}',
        b'{"layout": 1, "known": [3]}',
        b'{"layout": 1, "known": [{"file": "x"}]}',
        b'{"layout": 1, "known": [{"file": 1, "name": "", "kind": "", "source": "", '
        b'"target": ""}]}',
        b'{"layout": 1, "known": [{"file": "\\u0000", "name": "", "kind": "", "source": "", '
        b'"target": ""}]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_baseline_is_named(path, data):
    path.write_bytes(data)
    with pytest.raises(UntoldError, match=r"known\.json: no baseline of untold check, or damaged"):
        read_baseline(path)


def test_a_baseline_cut_anywhere_is_named(path):
    write_baseline(path, [baseline_entry(SEGMENT, "omission")])
    whole = path.read_bytes()
    for length in range(len(whole.rstrip(b"}\n"))):
        path.write_bytes(whole[:length])
        with pytest.raises(UntoldError, match=r"known\.json: "):
            read_baseline(path)


def test_another_layout_and_a_missing_file_are_named(path):
    with pytest.raises(UntoldError, match=r"known\.json: No such file"):
        read_baseline(path)
    path.write_text('{"layout": 2, "known": []}')
    with pytest.raises(UntoldError, match=r"known\.json: has layout 2, and .* reads 1"):
        read_baseline(path)


@given(st.text(), st.text(), st.text(st.characters(exclude_characters="\0/")))
def test_any_text_is_known_again(tmp_path_factory, source, target, name):
    path = tmp_path_factory.getbasetemp() / "any.json"
    file = os.fsdecode(b"caf\xe9.po")  # no UTF-8
    segment = Segment(file, 1, source, target, name)
    entry = baseline_entry(segment, "addition")
    assert known(path, entry) == {entry}
