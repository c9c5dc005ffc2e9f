"""Lines of an open descriptor: as a file would give them, and as soon as they are there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from untold.corpus.text import count_lines_ahead, read_descriptor

TEXTS = [b"", b"\n", b"a", b"a\n", b"a\nb", b"a\r\n\nb\n", b"\n\n", b"x" * 3_000_000 + b"\ny\n"]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("data", TEXTS, ids=range(len(TEXTS)))
def test_lines_are_those_of_a_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "text"
    path.write_bytes(data)
    with opened(path) as descriptor, open(path, "rb") as file:
        expected = list(file)
        assert count_lines_ahead(descriptor) == len(expected)
        assert list(read_descriptor(descriptor)) == expected
        assert count_lines_ahead(descriptor) == 0, "all of it is read"


def test_only_lines_that_are_still_to_come_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\ntwo\nthree")
    with opened(path) as descriptor:
        os.read(descriptor, 4)
        assert count_lines_ahead(descriptor) == 2
        assert list(read_descriptor(descriptor)) == [b"two\n", b"three"]


def test_a_pipe_gives_each_line_at_once_and_cannot_be_counted() -> None:
    read, write = os.pipe()
    try:
        assert count_lines_ahead(read) is None
        lines = read_descriptor(read)
        os.write(write, b"first\nsec")
        assert next(lines) == b"first\n", "it does not wait for the second"
        os.write(write, b"ond\n")
        assert next(lines) == b"second\n"
    finally:
        os.close(write)
        os.close(read)
