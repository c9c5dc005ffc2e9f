"""Runs the command line in this process, which is quicker than a process for each case."""

import contextlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a command ended; `escaped` is an exception that came through all of its nets."""

    code: object
    output: str
    errors: str
    escaped: BaseException | None = None


def run_in_process(arguments: Sequence[object], folder: Path, text: bytes = b"") -> Ended:
    """Runs `untold ARGUMENTS` in a folder with this text on standard input."""
    from untold.cli import main

    streams = [io.BytesIO(text), io.BytesIO(), io.BytesIO()]
    wrapped = [io.TextIOWrapper(each, "utf-8", "backslashreplace") for each in streams]
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    code: object = 0
    escaped: BaseException | None = None
    with contextlib.chdir(folder):
        sys.argv = ["untold", *map(str, arguments)]
        sys.stdin, sys.stdout, sys.stderr = wrapped
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException as error:
            escaped = error
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = before
    for each in wrapped[1:]:
        each.flush()
    output, errors = (each.getvalue().decode(errors="replace") for each in streams[1:])
    return Ended(code, output, errors, escaped)


def untold(
    *arguments: object, folder: Path = Path(), text: str | bytes = b"", code: int = 0
) -> Ended:
    """Runs `untold ARGUMENTS` in this process; it must end with this exit code."""
    ended = run_in_process(arguments, folder, text.encode() if isinstance(text, str) else text)
    if ended.escaped is not None:
        raise ended.escaped
    assert ended.code == code, ended.errors
    assert "Traceback" not in ended.errors
    return ended
