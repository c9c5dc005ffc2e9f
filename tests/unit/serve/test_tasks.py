"""Tasks divide long lists, so that nobody waits long; words stand or change; files are read."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.checking.segments import Damage, Segment
from untold.serve import tasks
from untold.serve.schemas import ApiError, ServiceLimits
from untold.serve.tasks import _portions, kept_words, read_uploaded


@given(st.lists(st.integers(0, 2 * tasks._CELLS_AT_ONCE)))
def test_parts_are_small_and_all_there(cells):
    parts = [cells[part] for part in _portions(cells)]
    assert [each for part in parts for each in part] == cells
    for part in parts:
        assert 1 <= len(part) <= tasks._PAIRS_AT_ONCE
        assert len(part) == 1 or sum(part) <= tasks._CELLS_AT_ONCE


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [
        ([], ["a"], 0),
        (["a"], ["a", "b"], 1),
        (["a", "b"], ["a", "bc"], 2),  # the last word has grown
        (["a", "b"], ["a", "c"], 1),
        (["ab", "c"], ["a", "c"], 0),
        (["a", "b"], ["a"], 1),
        (["a", "b", "c"], ["ab", "b", "c"], 0),  # only the last word may grow
        (["a", "b"], [], 0),
    ],
)
def test_words_stand_or_have_changed(before, now, kept):
    assert kept_words(before, now) == kept


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_file_is_read_and_called_by_its_name():
    good, bad = read_uploaded("x.tsv", encoded("one two\teins\nbad\n"), ServiceLimits())
    assert isinstance(good, Segment) and (good.file, good.source) == ("x.tsv", "one two")
    assert isinstance(bad, Damage) and (bad.file, bad.line) == ("x.tsv", 2)


def test_texts_of_a_file_that_are_too_long_are_not_checked():
    (long,) = read_uploaded(
        "x.tsv", encoded("aaaa bbbb\tc d e\n"), ServiceLimits(pair_characters=8)
    )
    assert isinstance(long, Segment) and long.unchecked == "too long"


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("x.tsv.gz", "", 422, "unknown_format"),
        ("../../etc/passwd", "", 422, "unknown_format"),
        ("x" * 200 + ".po", "", 422, "unknown_format"),
        ("x.po", "%%%", 422, "not_base64"),
        ("x.po", "\N{GRINNING FACE}", 422, "not_base64"),
        ("x.po", encoded("a" * 101), 413, "file_too_large"),
        ("x.tsv", encoded("a\tb\n" * 4), 413, "too_many_segments"),
        ("x.tsv", base64.b64encode("a\tb".encode("utf-16")).decode(), 422, "unreadable_file"),
    ],
)
def test_files_that_cannot_be_read_are_refused_without_a_path(name, content, status, code):
    with pytest.raises(ApiError) as refused:
        read_uploaded(name, content, ServiceLimits(file_bytes=100, segments=3))
    assert (refused.value.status, refused.value.code) == (status, code)
    assert "/tmp" not in refused.value.message and "untold-" not in refused.value.message
