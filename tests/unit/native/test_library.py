import shutil
import subprocess
import sys

import pytest
import torch

from untold.native import in_parts, load
from untold.native.library import Kernels


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_where_there_is_a_compiler_installation_made_the_kernels():
    assert load() is not None


def test_a_user_can_leave_them_out():
    code = "from untold.native import load; print(load())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"UNTOLD_NATIVE": "0", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "None\n"


def test_a_library_of_another_kind_is_refused(tmp_path):
    other = tmp_path / "_kernels.so"
    other.write_bytes(b"not a library")
    with pytest.raises(OSError, match="_kernels"):
        Kernels(other)


@pytest.mark.parametrize("rows", [1, 31, 64, 100, 1000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_cover_every_row_once(rows, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    seen = []
    in_parts(lambda first, last: seen.extend(range(first, last)), rows)
    assert sorted(seen) == list(range(rows))


def test_an_error_in_a_part_is_the_callers(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def fail(first, last):
        raise ValueError(f"{first} to {last}")

    with pytest.raises(ValueError, match="0 to 32"):
        in_parts(fail, 64)
