"""Files and directories that appear whole or not at all, and a lock of a directory.

Everything is written under a temporary name beside its final one, flushed and then renamed. A
directory is completed by a MANIFEST.json, which is written last, so all files of a directory that
has one were flushed before.
"""

import ctypes
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from untold.errors import InUseError, UntoldError, reason_and_cure

MANIFEST = "MANIFEST.json"
LOCK = ".lock"
_HOST = socket.gethostname()
_UNFINISHED = re.compile(rf"\.tmp-.+-{re.escape(_HOST)}-(\d+)-[0-9a-f]{{8}}")
_CURRENT_FOLDER, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@dataclass(frozen=True)
class _Entry:
    name: str
    size: int
    sha256: str


@contextmanager
def new_directory(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yields a directory to fill; on success it appears whole at `path`, else nothing changes."""
    path = path.absolute()
    remove_litter(path.parent)
    _refuse_existing(path, replace)
    with scratch_directory(path, parents=True) as temporary, writing(path):
        yield temporary
        seal_directory(temporary)
        _refuse_existing(path, replace)
        if path.exists():
            _exchange(temporary, path)
        else:
            temporary.rename(path)
        _fsync(path.parent)


@contextmanager
def scratch_directory(beside: Path, *, parents: bool = False) -> Iterator[Path]:
    """Yields a directory beside a path, for files that are needed for a while only."""
    path = _temporary_path(beside.absolute())
    with writing(beside):
        path.mkdir(parents=parents)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an error of the file system within the block into a line with `path` and a cure."""
    try:
        yield
    except OSError as error:
        raise UntoldError(f"{path}: could not be written: {reason_and_cure(error)}") from error


def move_files(folder: Path, out: Path) -> None:
    """Moves whole files to a directory of the same disk; each replaces the one of its name."""
    with writing(out):
        for path in sorted(folder.iterdir()):
            path.replace(out / path.name)
        _fsync(out)


def verify_directory(path: Path, *, shared_by: str | None = None) -> None:
    """Raises an error unless the visible files are those that the manifest lists.

    If `shared_by` is one of them, others may lie beside them.
    """
    try:
        entries = {entry.name: entry for entry in _read_manifest(path)}
        files = _files(path)
        for name in sorted(entries.keys() | (() if shared_by in entries else files.keys())):
            if reason := _mismatch(entries.get(name), files.get(name)):
                raise UntoldError(f"{path}: {name} {reason}")
    except OSError as error:
        raise UntoldError(f"{path}: cannot be read: {reason_and_cure(error)}") from error


def is_complete(path: Path) -> bool:
    """Returns True if there is a manifest and every file has its size; reads no contents."""
    try:
        return all((path / e.name).stat().st_size == e.size for e in _read_manifest(path))
    except (OSError, ValueError, UntoldError):
        return False


def remove_litter(parent: Path) -> list[Path]:
    """Removes what processes of this host that have died left unfinished; returns its paths."""
    removed = []
    for path in sorted(parent.glob(".tmp-*")) if parent.is_dir() else []:
        match = _UNFINISHED.fullmatch(path.name)
        if match is None or _is_alive(int(match[1])):
            continue
        with suppress(OSError):  # another process may be tidying the same directory
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            removed.append(path)
    return removed


def write_file(path: Path, data: bytes) -> None:
    """Replaces one file atomically: a reader sees all of the old bytes or all of the new ones."""
    with new_file(path) as file:
        file.write(data)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yields a file to fill; on success it appears whole at `path`, else nothing changes.

    A device or a pipe cannot be replaced: it gets the bytes at once.
    """
    path = path.resolve()  # a link stays, and what it points at is replaced
    if path.exists() and not path.is_file():
        with writing(path), open(path, "wb") as file:
            yield file
        return
    remove_litter(path.parent)
    temporary = _temporary_path(path)
    try:
        with writing(path):
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _fsync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Locks `path` for this process alone; the system unlocks it when the process ends."""
    file = path.absolute() / LOCK
    lock = FileLock(file, timeout=0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        with suppress(OSError):  # a full disk
            file.write_text(f"process {os.getpid()} on host {_HOST}", encoding="utf-8")
    except Timeout:
        holder = file.read_text(encoding="utf-8") or "another process"
        raise InUseError(f"{path}: in use by {holder}; wait for it or stop it") from None
    except OSError as error:
        raise UntoldError(f"{file}: cannot be locked: {reason_and_cure(error)}") from error
    try:
        yield
    finally:
        lock.release()


def hash_file(path: Path) -> str:
    """Returns the sha256 of a file's bytes in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_directory(directory: Path, names: Collection[str] | None = None) -> None:
    """Writes the manifest of all files of a directory that has none, or of these alone."""
    entries, files = [], _files(directory)
    for name in sorted(files if names is None else names):
        path = files[name]
        _fsync(path)
        entries.append(asdict(_Entry(name, path.stat().st_size, hash_file(path))))
    with open(directory / MANIFEST, "xb") as file:
        file.write(json.dumps({"files": entries}, indent=1).encode())
        file.flush()
        os.fsync(file.fileno())
    for path in [directory, *directory.rglob("*/")]:
        _fsync(path)


def _refuse_existing(path: Path, replace: bool) -> None:
    if path.exists() and not replace:
        raise UntoldError(f"{path}: already exists; remove it or choose another name")


def _temporary_path(path: Path) -> Path:
    owner = f"{_HOST}-{os.getpid()}-{secrets.token_hex(4)}"
    return path.with_name(f".tmp-{path.name}-{owner}")


def _exchange(temporary: Path, path: Path) -> None:
    """Lets two directories change names at once, so that no moment is without one at `path`.

    Where the system cannot, the old one is put aside for a moment.
    """
    names = os.fsencode(temporary), os.fsencode(path)
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename and not rename(_CURRENT_FOLDER, names[0], _CURRENT_FOLDER, names[1], _EXCHANGE):
        return
    aside = path.with_name(f".old-{path.name}-{secrets.token_hex(4)}")
    path.rename(aside)
    try:
        temporary.rename(path)
    except BaseException:
        aside.rename(path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(directory: Path) -> dict[str, Path]:
    """Maps relative names to the visible files under a directory, without the manifest."""
    files = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory)
        hidden = any(part.startswith(".") for part in name.parts)
        if not hidden and not path.is_dir() and name != Path(MANIFEST):
            files[name.as_posix()] = path
    return files


def _read_manifest(directory: Path) -> list[_Entry]:
    file = directory / MANIFEST
    if not file.is_file():
        is_there = directory.is_dir()
        what = f"no {MANIFEST}: it was never finished" if is_there else "no such directory"
        raise UntoldError(f"{directory}: {what}")
    try:
        entries = [_Entry(**entry) for entry in json.loads(file.read_bytes())["files"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        entries = None
    if entries is None or not all(_is_valid(entry) for entry in entries):
        raise UntoldError(f"{directory}: {MANIFEST} is damaged")
    return entries


def _is_valid(entry: _Entry) -> bool:
    types = (type(entry.name), type(entry.size), type(entry.sha256))
    return types == (str, int, str) and "\0" not in entry.name


def _mismatch(entry: _Entry | None, path: Path | None) -> str | None:
    if entry is None:
        return f"is not in {MANIFEST}: move it elsewhere"
    if path is None:
        return "is missing"
    size = path.stat().st_size
    if size != entry.size:
        return f"has {size} bytes, not {entry.size} as when it was written"
    if hash_file(path) != entry.sha256:
        return "has changed since it was written (sha256 differs)"
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
