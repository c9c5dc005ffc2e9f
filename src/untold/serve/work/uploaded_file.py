"""Reads the segments of a file that came with a request; the file lives as long as the reading."""

import base64
import binascii
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath

from untold.checking.formats import read_segments
from untold.checking.segments import Damage, ReadOptions, Segment
from untold.errors import UntoldError, reason_and_cure, shorten
from untold.serve.api_errors import ApiError, not_ready, unfit
from untold.serve.service_limits import ServiceLimits

# A compressed file could be a thousand times as large as what was sent: there is no .gz.
SUFFIXES = (".po", ".pot", ".tmx", ".tsv", ".jsonl", ".xlf", ".xliff")
_LONGEST_NAME = 100


def read_uploaded(name: str, content: str, limits: ServiceLimits) -> list[Segment | Damage]:
    """Reads a file of this name whose bytes are given in base64."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in SUFFIXES or len(name) > _LONGEST_NAME:
        known = f"{', '.join(SUFFIXES)}, and at most {_LONGEST_NAME} characters"
        raise unfit("unknown_format", f"file.name {shorten(name)}: must end in one of {known}")
    data = _decode(content, limits.file_bytes)
    try:
        with tempfile.TemporaryDirectory(prefix="untold-") as folder:
            path = Path(folder) / f"file{suffix}"
            path.write_bytes(data)
            return _read(path, name, limits)
    except OSError as error:
        raise not_ready(f"the file cannot be kept: {reason_and_cure(error)}") from None


def _decode(content: str, most: int) -> bytes:
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise unfit("not_base64", "file.content is not base64: encode the bytes again") from None
    if len(data) > most:
        sizes = f"{len(data):,} bytes, and at most {most:,} are read"
        raise ApiError(413, "file_too_large", f"the file has {sizes}: divide it")
    return data


def _read(path: Path, name: str, limits: ServiceLimits) -> list[Segment | Damage]:
    try:
        found = list(islice(read_segments(path, ReadOptions()), limits.segments + 1))
    except UntoldError as error:
        raise unfit("unreadable_file", str(error).replace(str(path), shorten(name))) from None
    if len(found) > limits.segments:
        raise ApiError(
            413,
            "too_many_segments",
            f"the file has more than {limits.segments:,} segments: divide it",
        )
    return [_renamed(each, path, name, limits.pair_characters) for each in found]


def _renamed(item: Segment | Damage, path: Path, name: str, characters: int) -> Segment | Damage:
    if isinstance(item, Damage):
        return replace(item, file=name, reason=item.reason.replace(str(path), name))
    if max(len(item.source), len(item.target)) > characters:
        return replace(item, file=name, unchecked=item.unchecked or "too long")
    return replace(item, file=name)
