"""Whatever goes wrong becomes one line with a cure, and a documented exit code."""

import errno
import os
from pathlib import Path

import pytest
from safetensors import SafetensorError

from untold.errors import INTERNAL, MISTAKE, UntoldError, explain_failure


def os_error(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UntoldError("size 0: at least 1"), "size 0: at least 1"),
        (os_error(errno.ENOSPC, "runs/a"), "runs/a: No space left on device: free some space"),
        (os_error(errno.EACCES, "x"), "x: Permission denied: choose a place that you may use"),
        (os_error(errno.EXDEV), "reading or writing: Invalid cross-device link: mend that"),
        (OSError("a library's own words"), "reading or writing: a library's own words"),
        (UnicodeEncodeError("ascii", "ä", 0, 1, "no"), "convert it to UTF-8"),
        (RecursionError("maximum"), "nested too deeply: write it with fewer levels"),
        (MemoryError(), "not enough memory: lower train.batch_tokens"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "not enough memory"),
        (SafetensorError("header too large"), "a damaged model file: header too large"),
    ],
)
def test_input_and_machine_get_a_line_with_a_cure(error, expected, tmp_path):
    failure = explain_failure(error, tmp_path)
    assert expected in failure.line
    assert "\n" not in failure.line
    assert failure.code == MISTAKE
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_of_untold_leaves_its_traceback_in_a_file(tmp_path):
    try:
        {}["nothing"]
    except KeyError as error:
        failure = explain_failure(error, tmp_path)
    assert failure.code == INTERNAL
    (path,) = tmp_path.iterdir()
    assert failure.line.endswith(f"the traceback is in {path}")
    assert "KeyError: 'nothing'" in path.read_text()
    assert '{}["nothing"]' in path.read_text()


def test_a_traceback_that_cannot_be_kept_is_printed(tmp_path):
    failure = explain_failure(ValueError("odd"), tmp_path / "missing")
    assert failure.code == INTERNAL
    assert "\n" not in failure.line
    assert failure.details.endswith("ValueError: odd\n")


def test_bytes_as_a_file_name_are_readable():
    assert "b'" not in explain_failure(OSError(errno.EIO, "x", b"disk"), Path()).line
