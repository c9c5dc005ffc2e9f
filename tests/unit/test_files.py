"""What files.py writes is whole or absent after kills, full disks and flipped bits."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from untold.errors import UntoldError
from untold.files import (
    MANIFEST,
    hash_file,
    is_complete,
    lock_directory,
    new_directory,
    new_file,
    remove_litter,
    verify_directory,
    write_file,
)

FILES = 4
SIZE = 200_000

WRITERS = {
    "durable": """
        import sys
        from pathlib import Path
        from untold.files import new_directory

        path, files, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
        generation = 0
        while True:
            generation = (generation + 1) % 250
            with new_directory(path, replace=True) as directory:
                for index in range(files):
                    (directory / f"{index}.bin").write_bytes(bytes([generation]) * size)
            print("ready", flush=True)
        """,
    "naive": """
        import sys
        from pathlib import Path

        path, files, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
        path.mkdir(exist_ok=True)
        generation = 0
        while True:
            generation = (generation + 1) % 250
            for index in range(files):
                (path / f"{index}.bin").write_bytes(bytes([generation]) * size)
            print("ready", flush=True)
        """,
}


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
    )


def kill_while_writing(kind, path, seconds):
    """Run a writer until it has finished once, and kill it at some moment after."""
    with start(WRITERS[kind], path, FILES, SIZE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        drain = threading.Thread(target=process.stdout.read)
        drain.start()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        drain.join()


def is_whole(path):
    """Returns True if all files exist, have full size and belong to one generation."""
    contents = [file.read_bytes() for file in sorted(path.glob("*.bin"))]
    return len(contents) == FILES and all(
        len(content) == SIZE and content == contents[0] for content in contents
    )


def test_kills_lose_nothing_and_a_naive_writer_does(tmp_path):
    moments = random.Random(7)
    hits, kills = 0, 0
    while hits < 4:
        kills += 1
        assert kills < 100, f"only {hits} of {kills} kills landed in a write"
        path = tmp_path / "durable" / "model"
        kill_while_writing("durable", path, moments.uniform(0.0, 0.05))
        hits += any(path.parent.glob(".*"))
        remove_litter(path.parent)
        verify_directory(path)
        assert is_whole(path)
        assert [file.name for file in path.parent.iterdir()] == ["model"]
    for _ in range(100):
        path = tmp_path / "naive"
        kill_while_writing("naive", path, moments.uniform(0.0, 0.05))
        if not is_whole(path):
            return
    pytest.fail("the naive writer lost nothing: the kills are too gentle to prove anything")


def test_where_names_cannot_be_exchanged_the_old_directory_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr("untold.files.ctypes.CDLL", lambda _: None)
    write(tmp_path / "model", a=b"old")
    write(tmp_path / "model", replace=True, a=b"new")
    verify_directory(tmp_path / "model")
    assert (tmp_path / "model" / "a").read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def write(path, replace=False, **files):
    with new_directory(path, replace=replace) as directory:
        for name, content in files.items():
            (directory / name).write_bytes(content)


def test_the_manifest_lists_every_file(tmp_path):
    with new_directory(tmp_path / "deep" / "model") as directory:
        (directory / "sub").mkdir()
        (directory / "sub" / "b").write_bytes(b"bb")
        (directory / "a").write_bytes(b"")
    path = tmp_path / "deep" / "model"
    verify_directory(path)
    assert is_complete(path)
    listed = json.loads((path / MANIFEST).read_text())["files"]
    assert [(entry["name"], entry["size"]) for entry in listed] == [("a", 0), ("sub/b", 2)]
    assert listed[1]["sha256"] == hash_file(path / "sub" / "b")


def test_an_existing_directory_is_refused_unless_replaced(tmp_path):
    path = tmp_path / "model"
    write(path, a=b"1")
    with pytest.raises(UntoldError, match=r"model: already exists"):
        write(path, a=b"2")
    assert (path / "a").read_bytes() == b"1"
    write(path, replace=True, b=b"2")
    verify_directory(path)
    assert sorted(file.name for file in path.iterdir()) == [MANIFEST, "b"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_exception_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "model"
    write(path, a=b"1")
    with pytest.raises(error), new_directory(path, replace=True) as directory:
        (directory / "a").write_bytes(b"2")
        raise error
    verify_directory(path)
    assert (path / "a").read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("nth", range(5))
def test_a_full_disk_at_any_flush_loses_nothing(tmp_path, monkeypatch, nth):
    path = tmp_path / "model"
    write(path, a=b"1", b=b"1")
    real, calls = os.fsync, []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == nth + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UntoldError, match=r"model: could not be written: .*No space left"):
        write(path, replace=True, a=b"2", b=b"2")
    monkeypatch.setattr(os, "fsync", real)
    verify_directory(path)
    # The fifth flush is the parent's, after the rename: the new directory is already in place.
    assert (path / "a").read_bytes() == (b"1" if nth < 4 else b"2")
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_beyond_the_limit_loses_nothing(tmp_path):
    script = """
        import resource, sys
        from pathlib import Path
        from untold.files import new_directory, write_file
        from untold.errors import UntoldError

        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        parent, data = Path(sys.argv[1]), bytes(100_000)
        try:
            write_file(parent / "file", data)
        except UntoldError as error:
            print(error)
        try:
            with new_directory(parent / "model", replace=True) as directory:
                (directory / "a").write_bytes(data)
        except UntoldError as error:
            print(error)
        """
    write(tmp_path / "model", a=b"old")
    write_file(tmp_path / "file", b"old")
    with start(script, tmp_path) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    assert output.decode().count("File too large") == 2
    assert f"{tmp_path / 'file'}: could not be written" in output.decode()
    assert f"{tmp_path / 'model'}: could not be written" in output.decode()
    assert (tmp_path / "file").read_bytes() == b"old"
    verify_directory(tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "model"]


def test_every_bit_flip_is_found(tmp_path):
    path = tmp_path / "model"
    content = b"sixteen bytes..."
    write(path, a=content)
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (path / "a").write_bytes(flipped)
        assert is_complete(path)  # the control: the size alone tells nothing
        with pytest.raises(UntoldError, match=r"model: a has changed"):
            verify_directory(path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: (path / "a").unlink(), r"model: a is missing"),
        (lambda path: (path / "a").write_bytes(b"x"), r"model: a has 1 bytes, not 3"),
        (lambda path: (path / "b").write_bytes(b"x"), r"model: b is not in MANIFEST"),
        (
            lambda path: (path / MANIFEST).unlink(),
            r"model: no MANIFEST.json: it was never finished",
        ),
        (lambda path: (path / MANIFEST).write_text("{"), r"model: MANIFEST.json is damaged"),
        (lambda path: (path / MANIFEST).write_text("[]"), r"model: MANIFEST.json is damaged"),
        (lambda path: (path / MANIFEST).write_text('{"files": [{"name": 3}]}'), r"is damaged"),
        (lambda path: (path / MANIFEST).write_bytes(b"\xff"), r"is damaged"),
    ],
)
def test_damage_is_named(tmp_path, damage, reason):
    path = tmp_path / "model"
    write(path, a=b"abc")
    damage(path)
    with pytest.raises(UntoldError, match=reason):
        verify_directory(path)
    assert is_complete(path) == ("b is not" in reason)


def test_absent_directories_and_hidden_files(tmp_path):
    with pytest.raises(UntoldError, match="no such directory"):
        verify_directory(tmp_path / "nowhere")
    assert not is_complete(tmp_path / "nowhere")
    write(tmp_path / "model", a=b"abc")
    (tmp_path / "model" / ".DS_Store").write_bytes(b"a file manager was here")
    verify_directory(tmp_path / "model")


def dead_pid():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_the_next_start_removes_what_a_dead_writer_left(tmp_path, kind):
    """Whatever the command: nobody else need tidy up."""
    script = """
        import os, sys
        from pathlib import Path
        from untold.files import new_directory, new_file

        with {"directory": new_directory, "file": new_file}[sys.argv[2]](Path(sys.argv[1])):
            os._exit(1)
    """
    path = tmp_path / "result"
    with start(script, path, kind) as process:
        process.wait()
    assert [each.name[:12] for each in tmp_path.iterdir()] == [".tmp-result-"], "the control"
    if kind == "directory":
        with new_directory(path) as folder:
            (folder / "file").write_bytes(b"whole")
    else:
        write_file(path, b"whole")
    assert [each.name for each in tmp_path.iterdir()] == ["result"]


def test_only_the_litter_of_dead_processes_of_this_host_goes(tmp_path):
    with new_directory(tmp_path / "mine") as live:
        name = live.name.split("-")
        dead = tmp_path / "-".join([*name[:-2], str(dead_pid()), name[-1]])
        dead.mkdir()
        (dead / "half").write_bytes(b"")
        elsewhere = tmp_path / f".tmp-mine-elsewhere-{dead_pid()}-{name[-1]}"
        elsewhere.mkdir()
        (tmp_path / ".hidden").mkdir()
        assert remove_litter(tmp_path) == [dead]
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == sorted([".hidden", elsewhere.name, live.name])
    assert remove_litter(tmp_path / "nowhere") == []


def test_write_file_replaces_at_once(tmp_path):
    path = tmp_path / "settings"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(UntoldError, match=r"nowhere/x: could not be written"):
        write_file(tmp_path / "nowhere" / "x", b"")


LOCKER = """
    import sys, time
    from pathlib import Path
    from untold.files import lock_directory

    with lock_directory(Path(sys.argv[1])):
        print("ready", flush=True)
        time.sleep(60)
    """


def test_a_live_lock_is_refused_and_a_dead_one_is_none(tmp_path):
    with start(LOCKER, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with (
            pytest.raises(UntoldError, match=rf"in use by process {process.pid} on host \S+; wait"),
            lock_directory(tmp_path),
        ):
            pass
        process.kill()
        process.wait()
    with lock_directory(tmp_path):
        pass


def test_one_process_cannot_lock_twice_and_an_exception_unlocks(tmp_path):
    with lock_directory(tmp_path), pytest.raises(UntoldError, match=f"process {os.getpid()} "):
        lock_directory(tmp_path).__enter__()
    with pytest.raises(ZeroDivisionError), lock_directory(tmp_path):
        raise ZeroDivisionError
    with lock_directory(tmp_path):
        pass


def test_of_many_rivals_one_wins(tmp_path):
    (tmp_path / ".lock").write_text(
        '{"host": "far", "pid": 1, "started": 0}'
    )  # of an older version
    rivals = [start(LOCKER, tmp_path) for _ in range(3)]
    try:
        done = time.monotonic() + 20
        while sum(rival.poll() is not None for rival in rivals) < 2 and time.monotonic() < done:
            time.sleep(0.02)
        assert sum(rival.poll() is None for rival in rivals) == 1
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()


def test_a_device_gets_the_bytes_and_stays_a_device():
    write_file(Path("/dev/null"), b"bytes")
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_new_file_that_is_not_finished_leaves_the_old_one(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(KeyError), new_file(tmp_path / "file") as file:
        file.write(b"half")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
