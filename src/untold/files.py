"""Writes files and directories that are whole or absent, whatever kills the writer (POSIX only).

A directory is written under a temporary name beside its final one, flushed, completed by a
MANIFEST.json and then renamed. The manifest is written last, so all files of a directory that has
one were flushed before.
"""

import fcntl
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

from untold.errors import InUseError, UntoldError, reason_and_cure

MANIFEST = "MANIFEST.json"
LOCK = ".lock"
# .tmp- is unfinished; .old- is being replaced, and between two renames it is the only copy.
_TEMPORARY_NAME = re.compile(
    r"\.(?P<kind>tmp|old)-(?P<name>.+)-(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>\d+)-[0-9a-f]{8}"
)


@dataclass(frozen=True)
class _Entry:
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class _Process:
    """Identifies a process; the start time tells it from a later process with the same number."""

    host: str
    pid: int
    started: int


@contextmanager
def new_directory(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yields a directory to fill; on success it appears whole at `path`, else nothing changes."""
    path = path.absolute()
    remove_litter(path.parent)
    _refuse_existing(path, replace)
    temporary = _temporary_path(path, "tmp")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
            yield temporary
            seal_directory(temporary)
            _refuse_existing(path, replace)
            _move_into_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # after success it has its final name


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an error of the file system within the block into a line with `path` and a cure."""
    try:
        yield
    except OSError as error:
        raise UntoldError(f"{path}: could not be written: {reason_and_cure(error)}") from error


@contextmanager
def scratch_directory(beside: Path) -> Iterator[Path]:
    """Yields a directory beside a path, for files that are needed for a while only."""
    path = _temporary_path(beside.absolute(), "tmp")
    with writing(beside):
        path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


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
        found = _files(path)
        for name in sorted(entries.keys() | (() if shared_by in entries else found.keys())):
            if reason := _mismatch(entries.get(name), found.get(name)):
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
    """Removes what dead processes of this host left unfinished; returns the removed paths.

    A directory that was put aside for a replacement that never arrived is put back.
    """
    removed = []
    for path in sorted(parent.glob(".*")) if parent.is_dir() else []:
        match = _TEMPORARY_NAME.fullmatch(path.name)
        if match is None or match["host"] != _host_tag() or _is_alive(_owner(match)):
            continue
        final = parent / match["name"]
        with suppress(OSError):  # another process may be tidying the same directory
            if match["kind"] == "old" and not final.exists():
                path.rename(final)
            else:
                _remove(path)
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
    temporary = _temporary_path(path, "tmp")
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
    """Locks `path` for this process alone; takes over a lock whose process died on this host."""
    file = path.absolute() / LOCK
    mine = _Process(socket.gethostname(), os.getpid(), _start_time(os.getpid()))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _open_lock_file(file) as descriptor:
            _refuse_other_holder(file, descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(mine)).encode(), 0)
    except OSError as error:
        raise UntoldError(f"{file}: cannot be locked: {reason_and_cure(error)}") from error
    try:
        yield
    finally:
        # A forked child runs this too when it exits; only the process that locked may unlock.
        if os.getpid() == mine.pid:
            with suppress(OSError), _open_lock_file(file) as descriptor:
                if _holder(descriptor) == mine:
                    file.unlink()


def hash_file(path: Path) -> str:
    """Returns the sha256 of a file's bytes in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_existing(path: Path, replace: bool) -> None:
    if path.exists() and not replace:
        raise UntoldError(f"{path}: already exists; remove it or choose another name")


def _temporary_path(path: Path, kind: str) -> Path:
    pid = os.getpid()
    owner = f"{_host_tag()}-{pid}-{_start_time(pid)}-{secrets.token_hex(4)}"
    return path.with_name(f".{kind}-{path.name}-{owner}")


def seal_directory(directory: Path, names: Collection[str] | None = None) -> None:
    """Writes the manifest of all files of a directory that has none, or of these alone."""
    entries, found = [], _files(directory)
    for name in sorted(found if names is None else names):
        path = found[name]
        _fsync(path)
        entries.append(asdict(_Entry(name, path.stat().st_size, hash_file(path))))
    _write_flushed(directory / MANIFEST, json.dumps({"files": entries}, indent=1).encode())
    for path in [directory, *directory.rglob("*/")]:
        _fsync(path)


def _move_into_place(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        _fsync(path.parent)
        return
    aside = _temporary_path(path, "old")
    path.rename(aside)
    try:
        temporary.rename(path)
    except BaseException:
        aside.rename(path)
        raise
    _fsync(path.parent)
    _remove(aside)


def _write_flushed(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _files(directory: Path) -> dict[str, Path]:
    """Maps relative names to the visible files under a directory, without the manifest."""
    found = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory)
        hidden = any(part.startswith(".") for part in name.parts)
        if not hidden and not path.is_dir() and name != Path(MANIFEST):
            found[name.as_posix()] = path
    return found


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


@contextmanager
def _open_lock_file(file: Path) -> Iterator[int]:
    """Yields the lock file's descriptor; no other process reads or writes the file meanwhile."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The last holder may have removed the file while we waited; then we try again.
            if _is_same_file(descriptor, file):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_same_file(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _refuse_other_holder(file: Path, descriptor: int) -> None:
    holder = _holder(descriptor)
    if holder is None:
        return
    here = holder.host == socket.gethostname()
    if here and not _is_alive(holder):
        return
    cure = "wait for it or stop it" if here else f"if it no longer runs, remove {file}"
    raise InUseError(f"{file.parent}: in use by process {holder.pid} on host {holder.host}; {cure}")


def _holder(descriptor: int) -> _Process | None:
    """Returns the process that the lock names; None if the lock is empty or was cut short."""
    try:
        fields = json.loads(os.pread(descriptor, 4096, 0))
        return _Process(str(fields["host"]), int(fields["pid"]), int(fields["started"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _owner(match: re.Match[str]) -> _Process:
    return _Process(match["host"], int(match["pid"]), int(match["started"]))


def _host_tag() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _is_alive(process: _Process) -> bool:
    """Returns True if this very process still runs on this host; a zombie does not."""
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    state, started = _status(process.pid)
    return state not in ("Z", "X") and started == process.started


def _start_time(pid: int) -> int:
    return _status(pid)[1]


def _status(pid: int) -> tuple[str, int]:
    """Returns state and start time of a process; systems without /proc give ("R", 0)."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
        return fields[0], int(fields[19])
    except (OSError, IndexError):
        return "R", 0
