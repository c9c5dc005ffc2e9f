"""Reads lines of bytes with their numbers; damage within a file does not end the reading."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

from untold.checking.segment import Damage
from untold.corpus.lines import open_bytes
from untold.errors import UntoldError

__all__ = ["RawLine", "decode_line", "read_chunks", "read_raw_lines"]

RawLine = tuple[int, bytes]
_LONGEST_LINE = 16 << 20  # bytes; a binary file without line ends must not fill the memory
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def read_raw_lines(path: Path) -> Iterator[RawLine | Damage]:
    """Yields number and content of each line, without its end and without a byte order mark.

    A line that is too long and the end of a broken .gz file come out as damages.
    """
    with open_bytes(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(_LONGEST_LINE + 1)
                too_long = len(line) > _LONGEST_LINE and not line.endswith(b"\n")
                if too_long:
                    _skip_line(file)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                yield _broken(path, number, error)
                return
            if not line:
                return
            if too_long:
                limit = f"longer than {_LONGEST_LINE >> 20} MiB"
                yield Damage(str(path), number, f"the line is {limit}: break it, or leave it out")
            else:
                yield number, _content(line, path if number == 1 else None)


def read_chunks(file: BufferedIOBase, path: Path, size: int) -> Iterator[bytes | Damage]:
    """Yields the bytes of an open file in chunks; the end of a broken .gz file is a damage."""
    lines = 1
    while True:
        try:
            chunk = file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield _broken(path, lines, error)
            return
        if not chunk:
            return
        yield chunk
        lines += chunk.count(b"\n")


def decode_line(content: bytes, place: RawLine, file: str) -> str | Damage:
    """Decodes UTF-8, or says which byte is none; `place` is the line that the content is of."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        return Damage(
            file,
            place[0],
            f"byte 0x{content[error.start]:02x} at {error.start + 1} is not UTF-8: convert the "
            "text first (iconv -t utf-8)",
        )


def _content(line: bytes, first_of: Path | None) -> bytes:
    if first_of is not None:
        if line.startswith(_WIDE):
            raise UntoldError(f"{first_of}: is UTF-16 or UTF-32: convert it (iconv -t utf-8)")
        line = line.removeprefix(codecs.BOM_UTF8)
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _skip_line(file: BufferedIOBase) -> None:
    while (part := file.readline(_LONGEST_LINE)) and not part.endswith(b"\n"):
        pass


def _broken(path: Path, line: int, error: Exception) -> Damage:
    return Damage(str(path), line, f"not a whole .gz file ({error}): get it again")
