"""TSV and JSONL: columns, ignore notes, and rows that are damaged."""

import json

import pytest

from translation_files import read, texts
from untold.checking.segments import ReadOptions
from untold.errors import UntoldError

BOTH = frozenset({"omission", "addition"})
NOTES = [
    ("ignore", BOTH),
    ("ignore omission", frozenset({"omission"})),
    ("ignore addition", frozenset({"addition"})),
    ("", frozenset()),
    ("please do not", frozenset()),
]


def columns(source, target):
    return ReadOptions(columns=(source, target))


@pytest.mark.parametrize(
    ("text", "options", "first_line"),
    [
        ("a cat\teine Katze\tx\n", ReadOptions(), 1),
        ("x\teine Katze\ta cat\n", columns("3", "2"), 1),
        ("de\tid\ten\neine Katze\t7\ta cat\n", columns("en", "de"), 2),
        ("target\tsource\neine Katze\ta cat\n", ReadOptions(), 2),
    ],
)
def test_columns_of_tsv(tmp_path, text, options, first_line):
    segments, damages = read(tmp_path / "a.tsv", text, options)
    assert (texts(segments), damages) == ([("a cat", "eine Katze")], [])
    assert segments[0].line == first_line


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ({"source": "a cat", "target": "eine Katze"}, ReadOptions()),
        ({"id": 1, "en": "a cat", "de": "eine Katze"}, columns("en", "de")),
        ({"translation": {"en": "a cat", "de": "eine Katze"}}, columns("en", "de")),
        ({"source": "a\ncat", "target": "eine\tKatze"}, ReadOptions()),
    ],
)
def test_columns_of_jsonl(tmp_path, row, options):
    segments, damages = read(tmp_path / "a.jsonl", json.dumps(row), options)
    assert (texts(segments), damages) == ([("a cat", "eine Katze")], [])


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_a_column_untold_says_what_is_ignored(tmp_path, suffix):
    rows = [{"source": "a cat", "target": "eine Katze", "untold": note} for note, _ in NOTES]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if suffix == ".tsv":
        text = "".join(
            "\t".join(row) + "\n" for row in [list(rows[0]), *(r.values() for r in rows)]
        )
    segments, damages = read(tmp_path / f"a{suffix}", text)
    assert damages == []
    assert [segment.ignored for segment in segments] == [ignored for _, ignored in NOTES]


def test_bad_rows_of_tsv_are_damages(tmp_path):
    rows = [
        b"one cat\teine Katze",
        b"no tab",
        b"a\tb\tc",
        b"x\xff\ty",
        b"",
        b"two cats\tzwei Katzen",
    ]
    segments, damages = read(tmp_path / "a.tsv", b"\n".join(rows))
    assert texts(segments) == [("one cat", "eine Katze"), ("two cats", "zwei Katzen")]
    assert [(damage.line, damage.reason.split(":")[0]) for damage in damages] == [
        (2, "1 fields, not 2 parted by tabs"),
        (3, "3 fields, not 2 parted by tabs"),
        (4, "byte 0xff at 2 is not UTF-8"),
        (5, "1 fields, not 2 parted by tabs"),
    ]
    assert segments[-1].line == 6


def test_bad_rows_of_jsonl_are_damages(tmp_path):
    good = json.dumps({"source": "one cat", "target": "eine Katze"}).encode()
    bad = {
        b"{": "not JSON",
        b"": "not JSON",
        b"[1]": "is not a JSON object",
        b'{"source": "a", "target": 7}': "7 is int, not text",
        b'{"source": "a"}': "no column 'target'",
        b'{"source": "\\ud800", "target": "b"}': "lone surrogate",
        b'{"source": "\xff", "target": "b"}': "is not UTF-8",
        b"[" * 100_000: "not JSON",
        b'{"source": 1' + b"0" * 5000 + b"}": "not JSON",
    }
    segments, damages = read(tmp_path / "a.jsonl", b"\n".join([good, *bad, good]))
    assert texts(segments) == [("one cat", "eine Katze")] * 2
    assert [damage.line for damage in damages] == list(range(2, 2 + len(bad)))
    for damage, reason in zip(damages, bad.values(), strict=True):
        assert reason in damage.reason


@pytest.mark.parametrize(
    ("name", "text"), [("a.tsv", "en\tfr\nx\ty\n"), ("a.jsonl", '{"en": "x", "fr": "y"}\n')]
)
def test_columns_that_are_not_there_are_an_error_that_names_those_there_are(tmp_path, name, text):
    with pytest.raises(UntoldError, match=r"no column 'de'; set columns to two of: 'en', 'fr'"):
        read(tmp_path / name, text, columns("en", "de"))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    from untold.checking import segments as raw_lines

    monkeypatch.setattr(raw_lines, "_LONGEST_LINE", 1000)
    rows = ["a\tb", "x" * 5000 + "\ty", "c" * 996 + "\td d", "e\tf"]
    segments, damages = read(tmp_path / "a.tsv", "\n".join(rows))
    assert [segment.line for segment in segments] == [1, 3, 4]
    assert [(damage.line, "longer than" in damage.reason) for damage in damages] == [(2, True)]
