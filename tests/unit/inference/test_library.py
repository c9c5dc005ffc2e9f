import shutil
import subprocess
import sys

import pytest

from untold.inference.kernels import Kernels, load


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_where_there_is_a_compiler_installation_made_the_kernels():
    assert load() is not None


def test_a_user_can_leave_them_out():
    code = "from untold.inference.kernels import load; print(load())"
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
