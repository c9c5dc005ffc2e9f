"""Reads lines of UTF-8 text; every reader of text files goes through this module.

A line ends at the byte "\n" only, so that no character inside a sentence can shift the pairs after
it. One "\r" before the "\n" is dropped. Every other character is text, also a byte order mark and
a "\r" within the line.
"""

import gzip
import io
import os
import queue
import stat
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from untold.errors import UntoldError, reason_and_cure, refuse_endless_device

Item = TypeVar("Item")

_BLOCK_BYTES = 1 << 20


def split_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Decodes the lines of a binary file; errors say `name`."""
    for number, line in enumerate(stream, start=1):
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield content.decode()
        except UnicodeDecodeError as error:
            raise UntoldError(
                f"{name}:{number}:{error.start + 1}: byte 0x{content[error.start]:02x} is not "
                f"UTF-8: convert the text first (iconv -t utf-8)"
            ) from None


def read_descriptor(descriptor: int) -> Iterator[bytes]:
    """Yields lines with their ends as soon as they arrive, such as those of standard input.

    A thread that waits here holds no lock. One that waits inside `sys.stdin.buffer` does, and the
    interpreter aborts if it has to shut down meanwhile.
    """
    parts: list[bytes] = []
    while block := os.read(descriptor, _BLOCK_BYTES):
        *ends, rest = block.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end, b"\n"))
            parts = []
        if rest:
            parts.append(rest)
    if parts:
        yield b"".join(parts)


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file; a .gz file is checked to its end before its first line."""
    if path.suffix == ".gz":
        count_lines(path)
    with open_bytes(path) as file:
        yield from split_lines(file, str(path))


def read_parallel(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Reads two files whose lines belong together; unequal numbers of lines are an error."""
    sides = list(read_lines(source)), list(read_lines(target))
    _check_counts((source, target), sides)
    return sides


def read_test_set(
    source: Path, reference: Path, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """Reads a source text and its reference translations, as `read_references` does."""
    sources, (translations,) = read_references(source, [reference], say)
    return sources, translations


def read_references(
    source: Path, references: Sequence[Path], say: Callable[[str], None]
) -> tuple[list[str], list[list[str]]]:
    """Reads a source text and one or more reference translations of all of it.

    It says which lines are blank. A text without any words cannot be scored.
    """
    paths = (source, *references)
    sources, *translations = (list(read_lines(path)) for path in paths)
    for path, lines in zip(references, translations, strict=True):
        _check_counts((source, path), (sources, lines))
    for path, lines in zip(paths, (sources, *translations), strict=True):
        _check_blank_lines(path, lines, say)
    return sources, translations


def _check_counts(paths: tuple[Path, Path], sides: tuple[list[str], list[str]]) -> None:
    if len(sides[0]) != len(sides[1]):
        raise UntoldError(
            f"{paths[0]} has {len(sides[0])} lines and {paths[1]} has {len(sides[1])}: "
            "line by line they must belong together"
        )


def _check_blank_lines(path: Path, lines: Sequence[str], say: Callable[[str], None]) -> None:
    blank = [number for number, line in enumerate(lines, start=1) if not line.strip()]
    if len(blank) == len(lines):
        what = f"all {len(lines)} lines are blank" if lines else "is empty"
        raise UntoldError(f"{path}: {what}: there is nothing to score")
    if blank:
        share = f"{len(blank)} of {len(lines)} lines"
        say(f"{path}: {share} are blank, the first is line {blank[0]}")


def count_lines(path: Path) -> int:
    """Counts the lines of a file; a .gz that is cut, damaged or empty is an error."""
    lines, last = 0, b""
    with open_bytes(path) as file:
        while block := file.read(_BLOCK_BYTES):
            lines, last = lines + block.count(b"\n"), block
    if path.suffix == ".gz" and not last:
        # A download that failed at its first byte leaves an empty file, and gzip accepts that.
        raise UntoldError(f"{path}: holds nothing: get it again")
    return lines + (last != b"" and not last.endswith(b"\n"))


def count_lines_ahead(descriptor: int) -> int | None:
    """Counts the lines that are still to be read; None if they come from no regular file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    lines, last, place = 0, b"", os.lseek(descriptor, 0, os.SEEK_CUR)
    while block := os.pread(descriptor, _BLOCK_BYTES, place):
        lines, last, place = lines + block.count(b"\n"), block, place + len(block)
    return lines + (last != b"" and not last.endswith(b"\n"))


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """Opens a file, and unpacks it if its name ends in .gz; errors name the file."""
    refuse_endless_device(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UntoldError(f"{path}: not a whole .gz file ({error}): get it again") from None
    except OSError as error:
        raise UntoldError(f"{path}: {reason_and_cure(error)}") from None


@dataclass(frozen=True)
class _End:
    error: BaseException | None


def ready_groups(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yields all items in order, in lists of at most `most` items.

    A list holds the items that are ready when the caller asks for it, and the function waits for
    one item at least. A line typed at a terminal is therefore answered at once, and a file arrives
    in full groups. An error that the items raise is raised again after all items before it.
    """
    waiting: queue.Queue[Item | _End] = queue.Queue(maxsize=most)

    def read() -> None:
        error = None
        try:
            for item in items:
                waiting.put(item)
        except BaseException as raised:
            error = raised
        waiting.put(_End(error))

    threading.Thread(target=read, daemon=True).start()
    group: list[Item] = []
    while not isinstance(item := waiting.get(), _End):
        group.append(item)
        if len(group) == most or waiting.empty():
            yield group
            group = []
    if group:
        yield group
    if item.error is not None:
        raise item.error
